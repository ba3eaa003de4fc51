package org.nccl4j.api.spi;

import java.util.Optional;
import org.nccl4j.device.kernel.Nvls;

/** What a {@link MulticastProvider} made for one communicator, or why it could not. */
public interface Multicast extends AutoCloseable {
  /** The rank's place and memory; empty if it could not be made. */
  Optional<Nvls> nvls();

  /** What was made, or who could not make what and why, the same on all ranks; as a clause. */
  String reason();

  /** Frees what it holds; nothing of it may be in use. Calling it again does nothing. */
  @Override
  void close();
}
