package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;

/** One algorithm of one collective, prepared for one work. */
public interface Kernel {
  /** Runs it on this rank, to the end. */
  @HotPath
  void run(HostMemory send, HostMemory recv);
}
