package org.nccl4j.api.spi;

import java.util.List;
import java.util.Optional;
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
   * A rank's offer, sent to all others before anything is made.
   *
   * @param form empty without an offer
   * @param wanted whether its settings ask for it, so that a refusal is worth a warning
   * @param reason why, or why not, as a clause
   */
  record Offer(Optional<MulticastObject.Form> form, boolean wanted, String reason) {}

  /**
   * The ranks of one machine, which have a multicast object.
   *
   * @param members their ranks, ascending; the caller is among them
   * @param heads those that combine a part each, in the order of the parts; as many on every
   *     machine
   * @param channels that the search of the topology gives NVLS; 0 where it was not asked
   * @param most channels that can be used: as many as connections between machines have
   */
  record Team(List<Integer> members, List<Integer> heads, int channels, int most) {
    /** Copies the lists. */
    public Team {
      members = List.copyOf(members);
      heads = List.copyOf(heads);
    }
  }

  /** Lets ranks exchange a few bytes; every rank calls it equally often. */
  interface Exchange {
    /** Gives every rank everybody's bytes, by rank. */
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
   * A rank's place in NVLS before there is memory.
   *
   * @param nvls empty if there can be none
   * @param reason of that, the same on all ranks; else what it is, as a clause
   */
  record Outline(Optional<Nvls> nvls, String reason) {}

  /**
   * Determines the place of a rank, in step with all other ranks, for memory that {@link #open}
   * makes later. Calls none of the driver's multicast functions.
   *
   * @param team this rank's machine
   * @param exchange among all ranks of the communicator
   * @throws org.nccl4j.device.NcclException from the exchange
   */
  Outline outline(
      TransportContext context, Team team, MulticastObject.Form form, Exchange exchange);

  /**
   * Makes the memory of one machine's ranks of a communicator, whose ranks all offered the form, in
   * step with all other ranks. Where a rank of any machine cannot, all ranks give up and have freed
   * everything.
   *
   * @param team this rank's machine
   * @param exchange among all ranks of the communicator
   * @throws org.nccl4j.device.NcclException from the exchange
   */
  Multicast open(TransportContext context, Team team, MulticastObject.Form form, Exchange exchange);
}
