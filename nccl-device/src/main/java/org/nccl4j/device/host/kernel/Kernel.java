package org.nccl4j.device.host.kernel;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;

/** One algorithm of one collective, prepared for one work. */
interface Kernel {
  /** Runs it on this rank, to the end. */
  @HotPath
  void run(HostMemory send, HostMemory recv);
}
