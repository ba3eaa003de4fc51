package org.nccl4j.device.cuda.copy;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.cuda.driver.CudaResult;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.PinnedWords;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.StallDetector;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.Patience;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * Ranks meet by memory operations of their streams: each stores the meeting's number into a word of
 * every other, and its stream goes on when all have stored it into the own words. No kernel is
 * launched for it.
 *
 * <p>Such a wait knows neither deadline nor abort, so the processor watches it: before the waits
 * the stream stores their number into a word in host memory, after them into another. While the two
 * differ the rank waits; {@link #stall} tells when that has been too long, and {@link #release}
 * ends all waits for good by storing what the others did not. In graphs, which would store the same
 * number again at each launch, the ranks meet by a kernel instead; so a meeting must be captured on
 * all ranks or on none.
 *
 * <p>Launched by one thread at a time; any thread may ask and release.
 */
public final class StreamBarrier implements BatchCopyPlan.Meeting, AutoCloseable {
  private static final int BEGUN = 0; // places of the words in host memory
  private static final int ENDED = 8;
  private static final int WORDS = 16;
  private static final int WORD = 8;
  private static final int WIDE_OPERATIONS = 122; // ..._CAN_USE_64_BIT_STREAM_MEM_OPS

  private final Gpu gpu;
  private final KernelCommunicatorSpec spec;
  private final SymmetricSpace space;
  private final CudaKernelPlan captured;
  private final long arrivals;
  private final boolean wide;
  private final GpuStream releasing;
  private final PinnedWords memory;
  private final NativeWords words;
  private volatile long number;
  private final StallDetector watch = new StallDetector();
  private volatile boolean released;
  private long releasedUpTo;

  /**
   * Meetings of a communicator, in graphs by a kernel.
   *
   * @param arrivals offset of the words in the library's own window
   */
  public StreamBarrier(
      Gpu gpu,
      KernelCommunicatorSpec spec,
      SymmetricSpace space,
      long arrivals,
      CudaKernelPlan captured) {
    this.gpu = gpu;
    this.spec = spec;
    this.space = space;
    this.captured = captured;
    this.arrivals = arrivals;
    this.wide = gpu.attribute(WIDE_OPERATIONS) != 0;
    releasing = GpuStream.urgent(gpu);
    try {
      memory = PinnedWords.allocate(gpu, WORDS);
    } catch (RuntimeException e) {
      releasing.close();
      throw e;
    }
    words = new NativeWords(memory.host());
  }

  @Override
  public void launch(long send, long recv, GpuStream stream, boolean inGraph) {
    if (inGraph) {
      captured.launch(send, recv, stream);
      return;
    }
    long next = number + 1;
    number = next;
    for (int place = 0; place < space.size(); place++) {
      if (place != space.place()) {
        write(stream, word(place, space.place()), next);
      }
    }
    write(stream, memory.address() + BEGUN, next);
    for (int place = 0; place < space.size(); place++) {
      if (place != space.place()) {
        long own = word(space.place(), place);
        DriverLibrary.streamWait(stream.handle(), own, next, wide, gpu);
      }
    }
    write(stream, memory.address() + ENDED, next);
    if (released) {
      release(); // again: it may have looked before this meeting had its number
    }
  }

  /** Returns the address where a rank's stream stores its arrival. */
  private long word(int owner, int comer) {
    return space.resources().peers().get(owner).address() + arrivals + (long) WORD * comer;
  }

  private void write(GpuStream stream, long address, long value) {
    DriverLibrary.streamWrite(stream.handle(), address, value, wide, gpu);
  }

  /**
   * Returns a sentence that explains the problem if a wait has lasted longer than operations may;
   * else null. Callers poll it. It allocates nothing while there is no problem.
   */
  public String stall() {
    long begun = words.getLong(BEGUN);
    VarHandle.acquireFence(); // an end that is seen is not older than its begin
    if (released || begun == words.getLong(ENDED)) {
      watch.reset();
      return null;
    }
    Duration deadline = spec.deadline();
    if (!watch.isOverdue(begun, deadline)) {
      return null;
    }
    return "rank %d of %s waited longer than %s for rank %d to come to a copy (meeting %d)"
        .formatted(spec.rank(), spec.name(), Patience.text(deadline), missing(begun), begun);
  }

  /** The first rank that has not come to a meeting, or -1. */
  private int missing(long meeting) {
    ByteBuffer seen = ByteBuffer.allocateDirect(WORD).order(ByteOrder.nativeOrder());
    for (int place = 0; place < space.size(); place++) {
      if (place != space.place()) {
        long own = word(space.place(), place);
        gpu.hostCopies().read(own, seen);
        if (seen.getInt(0) - (int) meeting < 0) {
          return space.first() + place;
        }
      }
    }
    return -1;
  }

  /** Ends this rank's waits, now and from now on: the communicator has failed. */
  public synchronized void release() {
    long upTo = number;
    if (releasing.isClosed() || (released && upTo == releasedUpTo)) {
      return;
    }
    released = true;
    releasedUpTo = upTo;
    try {
      gpu.context().run(() -> storeForOthers(upTo));
    } catch (CudaException e) {
      if (!CudaResult.isContextLost(e)) { // in a lost context nothing waits any more
        throw e;
      }
    }
  }

  private void storeForOthers(long upTo) {
    for (int place = 0; place < space.size(); place++) {
      if (place != space.place()) {
        write(releasing, word(space.place(), place), upTo);
      }
    }
  }

  @Override
  public synchronized void close() {
    CloseAll all = new CloseAll();
    all.take(releasing::close);
    all.take(memory::close);
    all.end();
  }
}
