package org.nccl4j.transport.net.ib.device;

import java.util.List;
import org.nccl4j.transport.net.ib.verbs.Gid;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/**
 * One port of a device, as it was when it was looked at.
 *
 * @param device its device's name, such as mlx5_0
 * @param port its number, from 1
 * @param guid its device's
 * @param pciPath its device's place under /sys; empty if it has none
 * @param state as libibverbs counts: 4 is active
 * @param ethernet whether it is RoCE, not InfiniBand
 * @param lid its address on an InfiniBand subnet
 * @param mtu active MTU as libibverbs counts: 1 is 256 bytes, 5 is 4096
 * @param megabits speed in Mbit/s
 * @param maxMessage most bytes of one message
 * @param iwarp whether it is iWARP, which has no write with immediate
 * @param gids the addresses that are set
 */
public record IbPort(
    String device,
    int port,
    long guid,
    String pciPath,
    int state,
    boolean ethernet,
    int lid,
    int mtu,
    int megabits,
    long maxMessage,
    boolean iwarp,
    List<Gid> gids) {
  /** The way NCCL writes it. */
  public String name() {
    return device + ":" + port;
  }

  public static int mtuBytes(int mtu) {
    return 128 << mtu;
  }

  boolean isActive() {
    return state == VerbsLayout.PORT_ACTIVE;
  }

  String stateName() {
    return switch (state) {
      case 1 -> "down";
      case 2 -> "initializing (no subnet manager has configured it)";
      case 3 -> "armed";
      case 4 -> "active";
      default -> "state " + state;
    };
  }

  /** Returns the port in a line, for people. */
  public String describe() {
    return "%s %s %s, %d Mbit/s, MTU %d, %s"
        .formatted(
            name(),
            iwarp ? "iWARP" : ethernet ? "RoCE" : "InfiniBand",
            stateName(),
            megabits,
            mtuBytes(mtu),
            gids.isEmpty() ? "no GIDs" : "GIDs " + gids);
  }
}
