package org.nccl4j.device.cuda.rma;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.PinnedWords;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.gin.GinDevice;

/** A GPU for kernels' puts: rings in pinned memory, and copies in streams of the library's own. */
public record GpuGinDevice(Gpu gpu) implements GinDevice {
  @Override
  public long hostAddress(long address) {
    return gpu.context().get(() -> DriverLibrary.hostAddress(address, gpu));
  }

  @Override
  public Shared allocate(long bytes) {
    return new Pinned(PinnedWords.allocate(gpu, bytes));
  }

  @Override
  public Copies copies() {
    return new StreamCopies(gpu);
  }

  /** Pinned memory of the host. */
  private record Pinned(PinnedWords words) implements Shared {
    @Override
    public long host() {
      return words.host();
    }

    @Override
    public long address() {
      return words.address();
    }

    @Override
    public void close() {
      words.close();
    }
  }

  /** Copies in a stream, which writes the number of each into pinned memory after it. */
  private static final class StreamCopies implements Copies {
    private final Gpu gpu;
    private final GpuStream stream;
    private final PinnedWords memory;
    private final NativeWords word;
    private long begun;

    StreamCopies(Gpu gpu) {
      this.gpu = gpu;
      this.stream = GpuStream.urgent(gpu);
      try {
        memory = PinnedWords.allocate(gpu, Long.BYTES);
      } catch (RuntimeException e) {
        stream.close();
        throw e;
      }
      word = new NativeWords(memory.host());
    }

    @Override
    public void begin(long to, long from, long bytes) {
      long before = gpu.context().enter();
      try {
        DriverLibrary.copyAsync(to, from, bytes, stream.handle(), gpu);
        DriverLibrary.streamWrite(stream.handle(), memory.address(), begun + 1, true, gpu);
        begun++;
      } finally {
        gpu.context().leave(before);
      }
    }

    @Override
    public long begun() {
      return begun;
    }

    @Override
    public long done() {
      long value = word.getLong(0);
      VarHandle.acquireFence();
      return value;
    }

    @Override
    public void close() {
      stream.synchronize();
      stream.close();
      memory.close();
    }
  }
}
