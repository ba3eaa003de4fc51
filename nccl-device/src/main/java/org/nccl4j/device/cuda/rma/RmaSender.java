package org.nccl4j.device.cuda.rma;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.StallDetector;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.support.Patience;

/**
 * One-sided operations of a GPU with ranks outside its team, by copies and memory operations of the
 * user's stream alone: a put fills slots in pinned memory ({@link RmaMessage}) and tells the proxy,
 * a wait is for a word that {@link RmaReceiver} stores. No kernel is launched. Where the network
 * card reads the source itself ({@link ExposedPuts}), a put is a message without data, and the
 * stream waits until all has been sent.
 *
 * <p>Streams' waits know neither deadline nor abort; so streams tell the number of each wait before
 * and after it, {@link #stall} tells when one has taken too long, and {@link #release} ends all for
 * good. A message has a number, which a graph would send again at each launch: puts and waits are
 * not captured.
 *
 * <p>Launched by one thread at a time; any thread may ask and release.
 */
public final class RmaSender implements AutoCloseable {
  private static final int WIDE_OPERATIONS = 122; // ..._CAN_USE_64_BIT_STREAM_MEM_OPS
  private static final int KNOWN_WAITS = 1 << 12;

  private final Gpu gpu;
  private final KernelCommunicatorSpec spec;

  /** By rank; null where there is none yet. Any thread. */
  private final AtomicReferenceArray<To> tos;

  private final RmaFlags words;
  private final int room;

  /** Messages to, and signals waited for from, each rank. */
  private final AtomicLongArray sent;

  private final AtomicLongArray awaited;

  /** The ranks of the last waits, by wait number, and whether they await a signal. */
  private final int[] waitsFor = new int[KNOWN_WAITS];

  private final boolean[] waitsForSignal = new boolean[KNOWN_WAITS];
  private volatile long number;
  private final StallDetector watch = new StallDetector();
  private volatile boolean released;

  /**
   * The connection to a rank.
   *
   * @param data address of what the stream writes
   * @param end for the processor
   * @param exposed null where all data go through slots
   */
  private record To(long data, HostVisibleEnd end, ExposedPuts exposed) {}

  RmaSender(Gpu gpu, KernelCommunicatorSpec spec, RmaSpace space) {
    this.gpu = gpu;
    this.spec = spec;
    int n = space.sends().size();
    tos = new AtomicReferenceArray<>(n);
    room = spec.layout().simpleSlotBytes() / ConnectionLayout.CHANNELS - RmaMessage.HEADER;
    sent = new AtomicLongArray(n);
    awaited = new AtomicLongArray(n);
    for (int rank = 0; rank < n; rank++) {
      if (space.sends().get(rank) != null) {
        connect(rank, space.sends().get(rank));
      }
    }
    words = new RmaFlags(gpu, n);
  }

  /** As {@link RmaSpace.Arrivals#connect}; a failed communicator puts nothing any more. */
  void connect(int rank, Connection send) {
    ExposedPuts exposed = send.exposed() instanceof ExposedPuts puts ? puts : null;
    HostVisibleEnd end = new HostVisibleEnd(gpu, send, spec.layout());
    tos.set(rank, new To(send.data().address(), end, exposed));
    if (released && exposed != null) {
      exposed.end(); // release may have looked before it was there
    }
  }

  /** Why a device cannot do this. */
  public static Optional<String> absence(Gpu gpu) {
    return gpu.attribute(WIDE_OPERATIONS) != 0
        ? Optional.empty()
        : Optional.of("streams of " + gpu + " have no memory operations of 64 bits");
  }

  /** Returns the words that streams and the processor share. */
  RmaFlags words() {
    return words;
  }

  /** Messages sent to a rank so far. */
  long sent(int rank) {
    return sent.get(rank);
  }

  void checkNotCaptured(GpuStream stream, String what) {
    if (CudaLibrary.isCapturing(stream.handle(), gpu)) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s of rank %d of %s is for a rank of another machine, and the stream is being captured"
              .formatted(what, spec.rank(), spec.name()),
          "call it outside of the capture: every put and signal between machines has a number");
    }
  }

  /**
   * Fills slots, in the current context; the source may be written again when the stream is here.
   *
   * @param source the data; null where there are none
   */
  void put(OneSidedWork.RemotePut put, DeviceMemory source, GpuStream stream) {
    checkNotCaptured(stream, put.bytes() == 0 ? "signal" : "putSignal");
    if (exposes(put, source)) {
      expose(put, source, stream);
    } else {
      copy(put, source, stream);
    }
    endWaits(stream);
  }

  private boolean exposes(OneSidedWork.RemotePut put, DeviceMemory source) {
    ExposedPuts to = tos.get(put.rank()).exposed;
    return put.bytes() > 0
        && to != null
        && to.takes(put.bytes())
        && RegisteredMemory.find(source, source.address(), put.bytes()) != null;
  }

  /** The data are all behind the message. The source is in use until they have been sent. */
  private void expose(OneSidedWork.RemotePut put, DeviceMemory source, GpuStream stream) {
    int rank = put.rank();
    To to = tos.get(rank);
    message(put, 0, 0, 0, put.bytes(), stream);
    long end = to.exposed.add(sent.get(rank), source, 0, put.bytes());
    write(stream, to.data + ConnectionLayout.TAIL, end);
    sent.set(rank, end);
    begin(rank, /* signal= */ false, stream);
    await(stream, RmaFlags.credit(rank), end);
  }

  private void copy(OneSidedWork.RemotePut put, DeviceMemory source, GpuStream stream) {
    long from = put.bytes() == 0 ? 0 : source.address();
    long done = 0;
    do {
      int part = (int) Math.min(room, put.bytes() - done);
      message(put, from + done, done, part, 0, stream);
      done += part;
    } while (done < put.bytes());
  }

  /** Sends a message with some bytes of a put, after which others come by themselves. */
  private void message(
      OneSidedWork.RemotePut put, long from, long done, int part, long behind, GpuStream stream) {
    int rank = put.rank();
    long data = tos.get(rank).data;
    long step = sent.get(rank);
    awaitCredit(rank, step, stream);
    long slot = data + spec.layout().simple(step);
    if (part > 0) {
      DriverLibrary.copyAsync(slot + RmaMessage.HEADER, from, part, stream.handle(), gpu);
    }
    long signals = done + part + behind == put.bytes() ? 1 : 0;
    write(stream, slot, put.window());
    write(stream, slot + RmaMessage.OFFSET, put.offset() + done);
    write(stream, slot + RmaMessage.BYTES, part | signals << 32);
    write(stream, slot + RmaMessage.BEHIND, behind);
    DriverLibrary.streamWrite(
        stream.handle(),
        data + ConnectionLayout.size(step),
        RmaMessage.HEADER + part,
        /* wide= */ false,
        gpu);
    write(stream, data + ConnectionLayout.TAIL, step + 1);
    sent.set(rank, step + 1);
  }

  private void awaitCredit(int rank, long step, GpuStream stream) {
    if (step >= ConnectionLayout.STEPS) {
      long least = step - ConnectionLayout.STEPS + 1;
      begin(rank, /* signal= */ false, stream);
      await(stream, RmaFlags.credit(rank), least);
    }
  }

  /** Waits for signals, in the current context. */
  void await(List<OneSidedWork.RemoteAwaited> remote, GpuStream stream) {
    for (int each = 0; each < remote.size(); each++) {
      OneSidedWork.RemoteAwaited from = remote.get(each);
      long due = awaited.addAndGet(from.rank(), from.signals());
      begin(from.rank(), /* signal= */ true, stream);
      await(stream, RmaFlags.signals(from.rank()), due);
    }
    endWaits(stream);
  }

  private void begin(int rank, boolean signal, GpuStream stream) {
    long next = number + 1;
    waitsFor[(int) (next % KNOWN_WAITS)] = rank;
    waitsForSignal[(int) (next % KNOWN_WAITS)] = signal;
    number = next;
    write(stream, words.address(words.begun()), next);
  }

  private void endWaits(GpuStream stream) {
    write(stream, words.address(words.ended()), number);
    if (released) {
      release(); // again: it may have looked before this was counted
    }
  }

  private void await(GpuStream stream, long word, long least) {
    DriverLibrary.streamWait(stream.handle(), words.address(word), least, true, gpu);
  }

  private void write(GpuStream stream, long address, long value) {
    DriverLibrary.streamWrite(stream.handle(), address, value, true, gpu);
  }

  /**
   * Has streams know which slots may be filled again, and returns how many more those are. Called
   * by the thread that gives the proxy its turn.
   */
  int giveCredit() {
    int more = 0;
    for (int rank = 0; rank < tos.length(); rank++) {
      if (sent.get(rank) > 0) {
        long head = tos.get(rank).end.head();
        long known = words.loadAcquire(RmaFlags.credit(rank));
        if (head > known) {
          publish(RmaFlags.credit(rank), head);
          more += (int) (head - known);
        }
      }
    }
    return more;
  }

  /** Tells streams of a rank's signals; by the same thread. */
  void setSignals(int rank, long signals) {
    publish(RmaFlags.signals(rank), signals);
  }

  /** After a failure, what streams wait for stays as high as they want it. */
  private void publish(long word, long value) {
    words.storeRelease(word, value);
    if (released) {
      release();
    }
  }

  /**
   * Returns a sentence that explains the problem if a wait has lasted longer than operations may;
   * else null. Callers poll it.
   */
  public String stall() {
    long begun = words.loadAcquire(words.begun()); // an end that is seen is not older
    if (released || begun == words.loadAcquire(words.ended())) {
      watch.reset();
      return null;
    }
    Duration deadline = spec.deadline();
    if (!watch.isOverdue(begun, deadline)) {
      return null;
    }
    boolean known = number - begun < KNOWN_WAITS;
    int at = (int) (begun % KNOWN_WAITS);
    return "rank %d of %s waited longer than %s for %s to %s"
        .formatted(
            spec.rank(),
            spec.name(),
            Patience.text(deadline),
            known ? "rank " + waitsFor[at] : "a rank of another machine",
            known && waitsForSignal[at] ? "signal" : "receive a put");
  }

  /** Ends all waits, now and from now on: the communicator has failed. */
  public void release() {
    released = true;
    for (int rank = 0; rank < tos.length(); rank++) {
      To to = tos.get(rank);
      if (to != null && to.exposed != null) {
        to.exposed.end();
      }
      words.storeRelease(RmaFlags.credit(rank), sent.get(rank));
      words.storeRelease(RmaFlags.signals(rank), awaited.get(rank));
    }
  }

  @Override
  public void close() {
    words.close();
  }
}
