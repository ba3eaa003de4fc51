package org.nccl4j.api.spi;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.spi.MulticastProvider.Exchange;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/** The result of a {@link MulticastProvider} for one communicator, or the reason of its failure. */
public interface Multicast extends AutoCloseable {
  /** The rank's place and memory; empty if it could not be made. */
  Optional<Nvls> nvls();

  /**
   * The result, or the failed rank with the step and the cause, the same on all ranks; as a clause.
   */
  String reason();

  /** Memory of the members' own that is reached by one access, or why it is not. */
  interface Cover extends AutoCloseable {
    /** All members' memory, as much of it as can be reached; empty if it could not be made. */
    Optional<MulticastMemory> memory();

    /** The failed rank with the step and the cause, the same on all ranks; as a clause. */
    String reason();

    /** Ends it; nothing of it may be in use. Calling it again does nothing. */
    @Override
    void close();
  }

  /**
   * Makes memory that every member has already be reached by one access, where it lies, in step
   * with all other ranks of the communicator. This object closes those that are still open when it
   * is closed.
   *
   * @param own this member's, where its device sees it
   * @param views all members', in their order, by this member's addresses
   * @param exchange among all ranks of the communicator
   * @throws org.nccl4j.device.NcclException from the exchange
   */
  Cover cover(ShareableMemory own, List<DeviceMemory> views, Exchange exchange);

  /** Frees what it holds; nothing of it may be in use. Calling it again does nothing. */
  @Override
  void close();
}
