package org.nccl4j.device.cuda;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;

/**
 * What a communicator's kernels read and keep: the control words in host memory, and on the device
 * the steps of all connections, the rings and the peers' addresses.
 */
final class CommunicatorMemory implements AutoCloseable {
  private final CudaDevice device;
  private final KernelCommunicatorSpec spec;
  private final long controlHost;
  private final long controlDevice;
  private final Pointer control;
  private final DeviceMemory memory;
  private final long ringRanks;
  private final long peerTable;

  CommunicatorMemory(CudaDevice device, KernelCommunicatorSpec spec) {
    this.device = device;
    this.spec = spec;
    int n = spec.nRanks();
    int stepsBytes = n * ConnectionLayout.CHANNELS * KernelLayout.STEPS_BYTES;
    int ringBytes = (ConnectionLayout.CHANNELS * n + 31) / 32 * 32;
    long bytes = stepsBytes + ringBytes + (long) n * KernelLayout.PEER_BYTES;
    memory = device.allocate(n == 1 ? 0 : bytes); // one rank only ever copies, without steps
    ringRanks = memory.address() + stepsBytes;
    peerTable = ringRanks + ringBytes;
    try {
      ByteBuffer tables =
          ByteBuffer.allocateDirect(ringBytes + n * KernelLayout.PEER_BYTES)
              .order(ByteOrder.nativeOrder());
      for (int channel = 0; channel < ConnectionLayout.CHANNELS; channel++) {
        int[] ring = ring(channel);
        for (int i = 0; i < n; i++) {
          tables.put(channel * n + i, (byte) ring[i]);
        }
      }
      for (int peer = 0; peer < n; peer++) {
        putPeer(tables, ringBytes + peer * KernelLayout.PEER_BYTES, peer);
      }
      if (n > 1) {
        memory.write(stepsBytes, tables);
      }
      for (int peer = 0; peer < n; peer++) {
        markCarried(peer);
      }
      controlHost =
          device.context().get(() -> JCudaLibrary.allocateHost(KernelLayout.CONTROL_BYTES, device));
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
    controlDevice = device.context().get(() -> JCudaLibrary.hostDeviceAddress(controlHost, device));
    control = Pointer.wrap(Runtime.getSystemRuntime(), controlHost, KernelLayout.CONTROL_BYTES);
    control.setMemory(0, KernelLayout.CONTROL_BYTES, (byte) 0);
  }

  /** Has the size told of each step that a proxy carries to a peer. */
  private void markCarried(int peer) {
    Connection send = spec.sends().get(peer);
    if (send == null || send.carried() == 0) {
      return;
    }
    int bytes = send.carried() * KernelLayout.STEPS_BYTES;
    ByteBuffer steps = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
    for (int at = KernelLayout.STEPS_CARRIED; at < bytes; at += KernelLayout.STEPS_BYTES) {
      steps.putLong(at, 1);
    }
    memory.write((long) peer * ConnectionLayout.CHANNELS * KernelLayout.STEPS_BYTES, steps);
  }

  /** A channel's ring, by position. */
  int[] ring(int channel) {
    return spec.ring().get(channel % spec.ring().size());
  }

  /** Of the device's memory. */
  long bytes() {
    return memory.size();
  }

  long ringRanks() {
    return ringRanks;
  }

  long peerTable() {
    return peerTable;
  }

  /** Fills the part that all kernels' arguments begin with. */
  void putCommunicator(Offheap arguments) {
    arguments
        .putLong(KernelLayout.CONTROL, controlDevice)
        .putLong(KernelLayout.STEPS, memory.address())
        .putLong(KernelLayout.BUDGET, spec.deadline().toNanos())
        .putInt(KernelLayout.RANK, spec.rank())
        .putInt(KernelLayout.N_RANKS, spec.nRanks())
        .putInt(KernelLayout.LL_SLOT, spec.layout().llSlotBytes())
        .putInt(KernelLayout.LL128_SLOT, spec.layout().ll128SlotBytes())
        .putInt(KernelLayout.SIMPLE_SLOT, spec.layout().simpleSlotBytes());
  }

  /** Fills a peer's entry; zeros where there is no connection. */
  void putPeer(ByteBuffer target, int offset, int peer) {
    Connection send = spec.sends().get(peer);
    Connection recv = spec.recvs().get(peer);
    target.putLong(offset, send == null ? 0 : send.data().address());
    target.putLong(offset + 8, send == null ? 0 : send.credit().address());
    target.putLong(offset + 16, recv == null ? 0 : recv.data().address());
    target.putLong(offset + 24, recv == null ? 0 : recv.credit().address());
  }

  /** Ends all waits of the communicator's kernels; published by being seen over the bus. */
  void abort() {
    control.putInt(KernelLayout.CONTROL_ABORT, 1);
    VarHandle.fullFence();
  }

  /** What a kernel reported when it gave up waiting, or null. */
  String kernelFailure() {
    if (control.getInt(KernelLayout.CONTROL_FAILED) == 0) {
      return null;
    }
    VarHandle.acquireFence(); // the fields below were written before the word above
    return "rank %d of %s waited longer than %s for %s of rank %d (channel %d, step %d)"
        .formatted(
            spec.rank(),
            spec.name(),
            spec.deadline(),
            control.getInt(KernelLayout.CONTROL_FAILED_KIND) == 0 ? "data" : "credit",
            control.getInt(KernelLayout.CONTROL_FAILED_PEER),
            control.getInt(KernelLayout.CONTROL_FAILED_CHANNEL),
            control.getLong(KernelLayout.CONTROL_FAILED_STEP));
  }

  /** The rank that a kernel waited for when it gave up; -1 while none has. */
  int failedPeer() {
    if (control.getInt(KernelLayout.CONTROL_FAILED) == 0) {
      return -1;
    }
    VarHandle.acquireFence(); // as above
    return control.getInt(KernelLayout.CONTROL_FAILED_PEER);
  }

  /** Where the control words are on the host; for tests, which take the kernels' part. */
  Pointer control() {
    return control;
  }

  @Override
  public void close() {
    memory.close();
    device.context().run(() -> JCudaLibrary.freeHost(controlHost, device));
  }
}
