package org.nccl4j.device.cuda.plan;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import jcuda.driver.CUresult;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CaptureLibrary;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.memory.CudaMemory;
import org.nccl4j.device.cuda.stream.CaptureRegistry;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.support.CloseAll;

/**
 * Tables of a communicator's plans that do not fit their kernels' arguments. A table is written in
 * pinned memory and copied to the device by the stream of its plan's first launch. One that its
 * plan leaves is another plan's as soon as the last launch has ended, so that plans which change at
 * each call neither take more and more memory nor wait for any. A captured plan's table is kept as
 * long as its graphs may run: of this library's until they have ended, of others' until the
 * communicator is closed.
 *
 * <p>Owned by the thread that prepares and launches; {@code bytes} by any.
 */
public final class PlanTables implements AutoCloseable {
  private static final int LEAST_BYTES = 4 << 10;
  private static final int SLAB_BYTES = 256 << 10;

  private final Gpu gpu;
  private final CaptureRegistry captures;
  private final Offheap asking = new Offheap(CaptureLibrary.SCRATCH_BYTES);
  private final List<Slab> slabs = new ArrayList<>();
  private final Map<Integer, Deque<Table>> freeBySize = new HashMap<>();

  /** Discarded, in the order of their last launches: those of a communicator end in order. */
  private final Deque<Table> ending = new ArrayDeque<>();

  /** Tables that no graph has any more. Any thread adds some. */
  private final Queue<Table> returned = new ConcurrentLinkedQueue<>();

  private volatile long bytes;

  /** Memory that is cut into tables of one size. */
  private record Slab(long host, DeviceMemory device, List<Table> tables) {}

  /**
   * No tables yet.
   *
   * @param captures of the GPU's streams
   */
  public PlanTables(Gpu gpu, CaptureRegistry captures) {
    this.gpu = gpu;
    this.captures = captures;
  }

  /** Bytes on the device. */
  public long bytes() {
    return bytes;
  }

  /** A table with this in it. */
  Table take(byte[] contents) {
    int size = Math.max(LEAST_BYTES, Integer.highestOneBit(2 * contents.length - 1));
    Deque<Table> unused = freeBySize.computeIfAbsent(size, key -> new ArrayDeque<>());
    if (unused.isEmpty()) {
      reclaim();
    }
    if (unused.isEmpty()) {
      unused.addAll(allocate(size));
    }
    Table table = unused.poll();
    table.fill(contents);
    return table;
  }

  /** Takes back the tables whose last launch has ended. */
  private void reclaim() {
    gpu.context()
        .run(
            () -> {
              while (!ending.isEmpty() && ending.peek().hasEnded()) {
                Table table = ending.poll();
                table.isDiscarded = true;
                takeBack(table);
              }
            });
    for (Table table = returned.poll(); table != null; table = returned.poll()) {
      takeBack(table);
    }
  }

  /** Takes a table back that neither its plan nor a graph has. */
  private void takeBack(Table table) {
    if (table.isDiscarded && !table.mayBeInUnknownGraph && table.graphs.get() == 0) {
      table.isDiscarded = false;
      freeBySize.get(table.size).add(table);
    }
  }

  private List<Table> allocate(int size) {
    int all = Math.max(SLAB_BYTES, size);
    DeviceMemory device = CudaMemory.allocate(gpu, all);
    Slab slab;
    try {
      long host = gpu.context().get(() -> CudaLibrary.allocateHost(all, gpu));
      slab = new Slab(host, device, new ArrayList<>());
    } catch (RuntimeException e) {
      device.close();
      throw e;
    }
    slabs.add(slab);
    bytes += all;
    for (int at = 0; at < all; at += size) {
      slab.tables.add(new Table(slab.host + at, device.address() + at, size));
    }
    return slab.tables;
  }

  /** Frees all of them; nothing may be running. */
  @Override
  public void close() {
    CloseAll all = new CloseAll();
    for (Slab slab : slabs) {
      slab.tables.forEach(table -> all.take(table::free));
      all.take(slab.device::close);
      all.take(() -> gpu.context().run(() -> CudaLibrary.freeHost(slab.host, gpu)));
    }
    slabs.clear();
    freeBySize.clear();
    ending.clear();
    bytes = 0;
    all.end();
  }

  /** The table of one plan at a time. */
  final class Table {
    private final NativeWords host;
    private final long hostAddress;
    private final long address;
    private final int size;
    private long lastLaunch; // event of the last launch; 0 before the first
    private int filledBytes;
    private boolean isOnDevice; // later launches of the communicator find the table on the device
    private boolean isCaptured; // the launch under way is captured
    private boolean mayBeInUnknownGraph; // of another library, or begun before its record

    /** True if its plan has discarded it, and all launches outside graphs have ended. */
    private boolean isDiscarded;

    private final AtomicInteger graphs = new AtomicInteger(); // that have it

    private Table(long host, long address, int size) {
      this.host = new NativeWords(host);
      this.hostAddress = host;
      this.address = address;
      this.size = size;
    }

    /** On the device. */
    long address() {
      return address;
    }

    private void fill(byte[] contents) {
      host.put(0, contents);
      filledBytes = contents.length;
      isOnDevice = false;
    }

    /**
     * Has it on the device before what comes next in a stream. A graph copies it at each launch,
     * since its first may come before any other.
     */
    void bring(GpuStream stream) {
      long capture = CaptureLibrary.capture(stream.handle(), asking, gpu);
      isCaptured = capture != 0;
      if (isCaptured || !isOnDevice) {
        DriverLibrary.copyAsync(address, hostAddress, filledBytes, stream.handle(), gpu);
      }
      if (isCaptured) {
        keepFor(captures.find(capture));
      }
      isOnDevice |= !isCaptured;
    }

    private void keepFor(CaptureRegistry.Capture capture) {
      if (capture == null) {
        mayBeInUnknownGraph = true;
      } else if (capture.keep(this, this::leaveGraph)) {
        graphs.incrementAndGet();
      }
    }

    /** A graph has ended. A thread of the driver may call. */
    private void leaveGraph() {
      if (graphs.decrementAndGet() == 0) {
        returned.add(this);
      }
    }

    /** A kernel that reads it was put into a stream. */
    void launched(GpuStream stream) {
      if (isCaptured) {
        return; // whose end is awaited
      }
      if (lastLaunch == 0) {
        lastLaunch = CudaLibrary.createEvent(false, gpu);
      }
      CudaLibrary.recordEvent(lastLaunch, stream.handle(), gpu);
    }

    /** Frees the tables of a plan that is launched no more. */
    void discard() {
      ending.add(this);
    }

    private boolean hasEnded() {
      try {
        return lastLaunch == 0 || CudaLibrary.isEventComplete(lastLaunch, gpu);
      } catch (CudaException e) {
        if (e.result() != CUresult.CUDA_ERROR_CAPTURED_EVENT) {
          throw e;
        }
        mayBeInUnknownGraph = true; // a capture began between the check and the record
        return true;
      }
    }

    private void free() {
      if (lastLaunch != 0) {
        CudaLibrary.destroyEvent(lastLaunch, gpu);
        lastLaunch = 0;
      }
    }
  }
}
