package org.nccl4j.transport.nvls;

import java.nio.ByteBuffer;
import java.util.Optional;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.PinnedMemory;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/** A GPU without memory and streams, whose kernels' side a test answers for. */
final class FakeGpu extends Device implements KernelDevice {
  private final KernelDevice kernels;

  FakeGpu(KernelDevice kernels) {
    this.kernels = kernels;
  }

  @Override
  public Kind kind() {
    return Kind.CUDA;
  }

  @Override
  public int index() {
    return 0;
  }

  @Override
  public String name() {
    return "a fake GPU";
  }

  @Override
  public DeviceMemory allocate(long bytes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceMemory memAlloc(long bytes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceMemory wrap(long address, long bytes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceMemory wrap(ByteBuffer direct) {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceStream createStream() {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceEvent createEvent() {
    throw new UnsupportedOperationException();
  }

  @Override
  public int mostRanks() {
    return kernels.mostRanks();
  }

  @Override
  public String id() {
    return kernels.id();
  }

  @Override
  public Optional<Boolean> nvlink(String peer) {
    return kernels.nvlink(peer);
  }

  @Override
  public ConnectionLayout connectionLayout(int nRanks) {
    return kernels.connectionLayout(nRanks);
  }

  @Override
  public String multicastAbsence() {
    return kernels.multicastAbsence();
  }

  @Override
  public MulticastObject multicast(MulticastObject.Form form, MulticastObject.Group group) {
    return kernels.multicast(form, group);
  }

  @Override
  public MulticastObject multicastOf(ShareableMemory own, MulticastObject.Group group) {
    return kernels.multicastOf(own, group);
  }

  @Override
  public void loadCombined(
      MulticastMemory all, DataType type, RedOp op, long offset, DeviceMemory target) {
    kernels.loadCombined(all, type, op, offset, target);
  }

  @Override
  public void storeToAll(DeviceMemory source, MulticastMemory all, long offset) {
    kernels.storeToAll(source, all, offset);
  }

  @Override
  public PinnedMemory hostVisible(long bytes) {
    return kernels.hostVisible(bytes);
  }

  @Override
  public KernelCommunicator createKernelCommunicator(KernelCommunicatorSpec spec) {
    return kernels.createKernelCommunicator(spec);
  }
}
