package org.nccl4j.device.kernel;

import org.nccl4j.device.Device;

/** The side of a {@link Device} that the engine uses; every device of this module implements it. */
public interface KernelDevice {
  /** Which device of the machine: on CUDA its bus id, the same in all processes; else "host". */
  String id();

  /**
   * Whether this device and another of the machine reach each other over NVLink, which keeps a
   * store of 128 bytes whole.
   *
   * @param peer the other's {@link #id}
   */
  boolean hasNvlink(String peer);

  /**
   * How large the buffers of one connection are on this device.
   *
   * @param nRanks ranks of the communicator that will use it
   */
  ConnectionLayout connectionLayout(int nRanks);

  /** What runs a communicator's kernels on this device. */
  KernelCommunicator createKernelCommunicator(KernelCommunicatorSpec spec);
}
