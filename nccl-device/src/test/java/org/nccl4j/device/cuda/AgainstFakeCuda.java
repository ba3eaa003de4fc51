package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.module.KernelModules;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Tests against the recording driver, after each of which nothing of it is left. */
public abstract class AgainstFakeCuda {
  /** A small collective that plans as one kernel. */
  protected static final CollectiveWork WORK =
      new CollectiveWork(
          Operation.ALL_REDUCE,
          Algorithm.RING,
          Protocol.SIMPLE,
          DataType.FLOAT32,
          RedOp.SUM,
          0,
          1000,
          4,
          1 << 20);

  protected FakeLibrary fake;
  private long live;

  @BeforeEach
  final void startFake() {
    fake = FakeCuda.get();
    CudaDevices.probe().list().forEach(device -> device.gpu().hostCopies().stream());
    live = FakeCuda.live();
  }

  /** A device that knows nothing yet; its stream for copies is of the process's life. */
  protected final CudaDevice fresh(int index) {
    CudaDevice device = new CudaDevice(index);
    long before = FakeCuda.live();
    device.gpu().hostCopies().stream();
    live += FakeCuda.live() - before;
    return device;
  }

  /** The kernels that are loaded on a device. */
  @SuppressWarnings("exports")
  protected static KernelModules kernels(CudaDevice device) {
    return device.kernels();
  }

  /** Returns the stream that plans are launched into. */
  @SuppressWarnings("exports")
  protected static GpuStream into(CudaStream stream) {
    return stream.open();
  }

  @AfterEach
  final void nothingIsLeft() {
    if (fake != null) {
      fake.fakeReset();
      assertEquals(live, FakeCuda.live());
    }
  }
}
