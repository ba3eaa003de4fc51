package org.nccl4j.api.multicast;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.Nvls;

/**
 * Gives all ranks of a machine access to all their memories at once; found by {@link
 * java.util.ServiceLoader}. Stateless; any thread may call any method.
 */
public interface MulticastProvider {
  /** The name in logs. */
  String name();

  /**
   * A rank's offer, sent to all others before anything is created.
   *
   * @param form empty without an offer
   * @param wanted true if its settings request it, so that a refusal is a warning
   * @param reason for the offer or its absence, as a clause
   */
  record Offer(Optional<MulticastObject.Form> form, boolean wanted, String reason) {}

  /**
   * The ranks of one machine, which have a multicast object.
   *
   * @param members their ranks, ascending; the caller is among them
   * @param heads the members that combine a part each, in the order of the parts; the same number
   *     on every machine
   * @param channels that the topology search gives NVLS; 0 without a search
   * @param most channels that can be used: within the limits of blocks (NCCL_MAX_CTAS,
   *     NCCL_CTA_POLICY, the room of GPUs), and between machines those of connections
   */
  record Team(List<Integer> members, List<Integer> heads, int channels, int most) {
    /** Copies the lists. */
    public Team {
      members = List.copyOf(members);
      heads = List.copyOf(heads);
    }
  }

  /** Lets ranks exchange a few bytes; every rank makes the same number of calls. */
  interface Exchange {
    /**
     * Returns all ranks' bytes, by rank.
     *
     * @param mine at most 2 KiB, behind which it may be cut
     */
    List<byte[]> allGather(byte[] mine);

    /**
     * Returns the time by which an exchange that begins now has ended or failed, as
     * System.nanoTime.
     */
    long endNanos();
  }

  /** This rank's offer. Neither allocates nor calls the driver's multicast functions. */
  Offer offer(Device device, SettingValues settings);

  /**
   * A rank's role in NVLS before there is memory.
   *
   * @param nvls empty if NVLS is not possible
   * @param reason why it is not possible, the same on all ranks; else a description, as a clause
   */
  record Outline(Optional<Nvls> nvls, String reason) {}

  /**
   * Determines the role of a rank, together with all other ranks, for memory that {@link #open}
   * creates later. Calls none of the driver's multicast functions.
   *
   * @param team this rank's machine
   * @param exchange among all ranks of the communicator
   * @throws org.nccl4j.device.NcclException from the exchange
   */
  Outline outline(
      TransportContext context, Team team, MulticastObject.Form form, Exchange exchange);

  /**
   * Creates the memory of a communicator's ranks of one machine, together with all other ranks; all
   * ranks have offered the form. If a rank of any machine fails, all ranks free everything.
   *
   * @param team this rank's machine
   * @param exchange among all ranks of the communicator
   * @throws org.nccl4j.device.NcclException from the exchange
   */
  Multicast open(TransportContext context, Team team, MulticastObject.Form form, Exchange exchange);
}
