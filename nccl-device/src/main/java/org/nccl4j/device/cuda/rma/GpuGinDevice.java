package org.nccl4j.device.cuda.rma;

import java.lang.invoke.VarHandle;
import java.util.Optional;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.PinnedWords;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.kernel.gin.GinDevice;

/**
 * A GPU for kernels' puts and gets: rings in pinned memory, copies in streams of the library's own,
 * and steps that the network card reads and writes in windows ({@link ExposedPuts}, {@link
 * PlacedPuts}).
 */
public record GpuGinDevice(Gpu gpu) implements GinDevice {
  /**
   * Least bytes that go from window to window: puts to one rank that do so follow one another, each
   * with a round trip, so up to here slots are expected to be faster. To be measured on NICs.
   */
  private static final int LEAST_EXPOSED = 256 << 10;

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

  @Override
  public Optional<Exposing> exposing(Connection send) {
    return Optional.ofNullable(
        send.exposed() instanceof ExposedPuts puts ? new Exposed(puts) : null);
  }

  @Override
  public Optional<Placing> placing(Connection recv) {
    return Optional.ofNullable(recv.placed() instanceof PlacedPuts puts ? new Placed(puts) : null);
  }

  /** Steps that the network card reads in windows. */
  private record Exposed(ExposedPuts puts) implements Exposing {
    @Override
    public boolean takes(DeviceMemory window, long offset, long bytes) {
      return bytes >= LEAST_EXPOSED
          && puts.takes(bytes)
          && RegisteredMemory.serves(window.device(), window.address() + offset, bytes);
    }

    @Override
    public long add(long first, DeviceMemory window, long offset, long bytes) {
      return puts.add(first, window, offset, bytes);
    }

    @Override
    public void end() {
      puts.end();
    }
  }

  /** Steps that the network card writes into windows. */
  private record Placed(PlacedPuts puts) implements Placing {
    @Override
    public boolean mayTell(long step, long from) {
      return step < from + PlacedPuts.AHEAD;
    }

    @Override
    public void tell(long step, DeviceMemory window, long offset, int bytes) {
      puts.tell(step, window, offset, bytes);
    }

    @Override
    public boolean take(long step) {
      return puts.take(step);
    }
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
