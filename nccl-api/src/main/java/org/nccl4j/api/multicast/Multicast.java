package org.nccl4j.api.multicast;

import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/** The result of a {@link MulticastProvider} for one communicator, or the reason of its failure. */
public interface Multicast extends AutoCloseable {
  /** The rank's role and memory; empty if NVLS could not be created. */
  Optional<Nvls> nvls();

  /**
   * The result, or the failed rank with the step and the cause, the same on all ranks; as a clause.
   */
  String reason();

  /**
   * The result of a measurement, the same on all ranks.
   *
   * @param gigabytes per second that the links of a GPU carry in each direction while all members
   *     combine and broadcast; empty if it was not measured
   * @param reason of that: the failed rank with the step and the cause; as a clause
   */
  record Speed(OptionalDouble gigabytes, String reason) {}

  /**
   * Measures the accesses of all members to the memory of {@link #nvls}, in step with all other
   * ranks, for some milliseconds. Nothing else may use the memory; it has zeros afterwards.
   *
   * @param exchange among all ranks of the communicator
   * @throws org.nccl4j.device.NcclException from the exchange
   */
  Speed time(Exchange exchange);

  /** Existing memory of all members that one access reaches, or the reason why it does not. */
  interface Cover extends AutoCloseable {
    /** The reachable part of all members' memory; empty if there is none. */
    Optional<MulticastMemory> memory();

    /** The failed rank with the step and the cause, the same on all ranks; as a clause. */
    String reason();

    /** Frees it; no operation may use it. Calling it again does nothing. */
    @Override
    void close();
  }

  /**
   * Makes existing memory of all members reachable by one access, without moving it, together with
   * all other ranks of the communicator. Closing this object also closes covers that are still
   * open.
   *
   * @param own this member's memory, at its device's address
   * @param views all members' memory, in their order, at this member's addresses
   * @param exchange among all ranks of the communicator
   * @throws org.nccl4j.device.NcclException from the exchange
   */
  Cover cover(ShareableMemory own, List<DeviceMemory> views, Exchange exchange);

  /** Frees its memory; no operation may use it. Calling it again does nothing. */
  @Override
  void close();
}
