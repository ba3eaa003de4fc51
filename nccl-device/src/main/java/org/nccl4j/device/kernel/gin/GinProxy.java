package org.nccl4j.device.kernel.gin;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.device.support.Patience;

/**
 * Sends what kernels write into rings, puts what other ranks send into this rank's windows, and
 * sends what other ranks get from them.
 *
 * <p>A ring's descriptors are sent in order, each as one message or more, so a rank's messages
 * arrive in order and a signal after the data before it. A get is a message too, which the other
 * rank answers by puts, after it has put what came before. One rank without a free slot, or with
 * many unanswered gets, holds the ring up; that ends, since the other proxy waits for no kernel.
 * Where all ranks are in the team, rings have no slots, and need no turns: kernels only learn there
 * that a wait is in vain.
 *
 * <p>Data that a network can read in a window are not copied: the message announces steps that are
 * sent from there, and received in the window of the other rank if its network can.
 *
 * <p>{@link #doWork} is called by one thread at a time; all other methods by any.
 */
public final class GinProxy implements RmaSpace.KernelPuts {
  /** Descriptors of a ring; a power of two, as the header requires. */
  static final int SLOTS = 256;

  private static final Duration LONGEST_TURN = Duration.ofSeconds(30);

  private final GinDevice device;
  private final BooleanSupplier failed;
  private final GinChecks checks;
  private final RmaSpace.Targets targets;
  private final long room;
  private final RmaSpace.Windows windows;

  /** By rank; null for ranks of the team. */
  private final GinPeer[] peers;

  private final List<GinPeer> outside = new ArrayList<>();
  private final GinDevice.Copies out;
  private final GinDevice.Copies in;

  /** Messages to all ranks whose data are being copied, in order of their copies. */
  private final ArrayDeque<GinPeer.Part> copying = new ArrayDeque<>();

  /** Replaced, never changed. */
  private volatile GinRing[] rings = new GinRing[0];

  /** False after answers were sent alone: neither kernels' puts nor answers take all slots. */
  private boolean answersFirst;

  /** Rings ever opened: their numbers are the same on all ranks. */
  private volatile long newest;

  /** True while a thread is in {@link #doWork}. */
  private volatile boolean inside;

  private volatile boolean over;
  private boolean closed;

  /**
   * A communicator.
   *
   * @param name for messages
   * @param layout of its connections
   * @param slotBytes bytes of a slot that a message can have
   */
  public record Of(String name, int rank, ConnectionLayout layout, int slotBytes) {}

  /**
   * A proxy without rings.
   *
   * @param failed true once the communicator has failed
   */
  public GinProxy(Of of, RmaSpace space, GinDevice device, BooleanSupplier failed) {
    this.device = device;
    this.failed = failed;
    this.room = of.slotBytes - RmaMessage.HEADER;
    this.windows = space.windows();
    this.checks = new GinChecks(of.name, of.rank, space);
    this.targets = new RmaSpace.Targets(of.rank, windows, room);
    peers = new GinPeer[space.sends().size()];
    for (int rank = 0; rank < peers.length; rank++) {
      Connection to = space.sends().get(rank);
      if (to != null) {
        peers[rank] = new GinPeer(rank, to, space.recvs().get(rank), of, device);
        outside.add(peers[rank]);
      }
    }
    out = device.copies();
    try {
      in = device.copies();
    } catch (RuntimeException e) {
      out.close();
      throw e;
    }
  }

  @Override
  public synchronized RmaSpace.KernelRing open(int signals) {
    int slots = outside.isEmpty() ? 0 : SLOTS;
    GinDevice.Shared memory = device.allocate(GinLayout.bytes(signals, slots));
    GinRing ring = new GinRing(this, newest + 1, signals, slots, memory, failed);
    GinRing[] more = Arrays.copyOf(rings, rings.length + 1);
    more[rings.length] = ring;
    rings = more;
    newest = ring.number(); // after the ring is there
    if (failed.getAsBoolean()) {
      ring.stop();
    }
    return ring;
  }

  synchronized void close(GinRing ring) {
    if (!ring.isOpen()) {
      return;
    }
    ring.stop();
    ring.shut();
    rings = Arrays.stream(rings).filter(r -> r != ring).toArray(GinRing[]::new);
    if (Patience.until(() -> !inside, LONGEST_TURN)) {
      ring.free();
    } else {
      KeptMemory.keep(
          ring,
          "the ring of device communicator %d of %s".formatted(ring.number(), checks.name()),
          ring.bytesOfMemory(),
          "a proxy thread still works on it");
    }
  }

  @Override
  public int doWork() {
    inside = true;
    try {
      return over || failed.getAsBoolean() ? 0 : work();
    } finally {
      inside = false;
    }
  }

  private int work() {
    int done = 0;
    for (GinPeer peer : outside) {
      done += receive(peer);
      if (peer.owesAcknowledgement()) {
        enqueue(peer.beginAcknowledgement(), null);
        done++;
      }
    }
    int answers = answersFirst ? answerAll() : 0;
    int sent = sendAll();
    answers += answersFirst ? 0 : answerAll();
    if (answers + sent > 0) {
      answersFirst = answers == 0 || sent > 0 && !answersFirst;
    }
    done += answers + sent + post();
    for (GinRing ring : rings) {
      done += ring.countDone(peers);
    }
    return done;
  }

  // ---- Sending ----

  private int sendAll() {
    int done = 0;
    for (GinRing ring : rings) {
      done += send(ring);
    }
    return done;
  }

  private int send(GinRing ring) {
    int done = 0;
    while (ring.hasWork()) {
      if (!ring.isSending()) {
        ring.take(checks);
      }
      GinPeer to = peers[ring.rank()];
      if (ring.isGet() && !to.mayAsk() || !to.hasCreditFor(ring, done == 0)) {
        return done;
      }
      if (ring.isGet()) {
        ask(ring, to);
      } else if (to.exposes(ring.own(), ring.ownOffset(), ring.left())) {
        expose(ring, to);
      } else {
        copy(ring, to);
      }
      done++;
    }
    return done;
  }

  private void ask(GinRing ring, GinPeer to) {
    long number = to.asked();
    GinPeer.Part begun =
        to.ask(ring.window(), ring.offset(), ring.left(), ring.ownWindow(), ring.ownOffset());
    ring.sent(ring.left(), number, GinRing.Way.GET);
    enqueue(begun, ring);
  }

  private void expose(GinRing ring, GinPeer to) {
    long part = Math.min(to.mostExposed(), ring.left());
    GinPeer.Part begun =
        to.expose(
            ring.window(),
            ring.offset(),
            ring.own(),
            ring.ownOffset(),
            part,
            ring.signalOf(part),
            ring.number());
    enqueue(begun, ring.sent(part, begun.end - 1, GinRing.Way.EXPOSED) ? ring : null);
  }

  private void copy(GinRing ring, GinPeer to) {
    int part = (int) Math.min(room, ring.left());
    if (part > 0) {
      out.begin(to.nextData(), ring.own().address() + ring.ownOffset(), part);
    }
    GinPeer.Part begun =
        to.begin(ring.window(), ring.offset(), part, ring.signalOf(part), ring.number());
    enqueue(begun, ring.sent(part, begun.step, GinRing.Way.COPIED) ? ring : null);
  }

  private int answerAll() {
    int done = 0;
    for (GinPeer peer : outside) {
      done += answer(peer);
    }
    return done;
  }

  /** Sends data that a rank gets from this rank's windows. */
  private int answer(GinPeer peer) {
    int done = 0;
    GinGets gets = peer.gets();
    GinGets.Get get = gets.next(in.done());
    while (get != null && peer.hasCredit()) {
      DeviceMemory source = checks.asked(peer.rank(), get.window(), get.offset(), get.bytes());
      long from = get.offset() + gets.sent();
      long to = get.toOffset() + gets.sent();
      long left = get.bytes() - gets.sent();
      boolean exposes = peer.exposes(source, from, left);
      long part = Math.min(exposes ? peer.mostExposed() : room, left);
      int signal = part == left ? GinMessage.ANSWERED : GinMessage.ANSWER;
      if (exposes) {
        enqueue(peer.expose(get.toWindow(), to, source, from, part, signal, 0), null);
      } else {
        out.begin(peer.nextData(), source.address() + from, part);
        enqueue(peer.begin(get.toWindow(), to, (int) part, signal, 0), null);
      }
      gets.sent(part);
      done++;
      get = gets.next(in.done());
    }
    return done;
  }

  private void enqueue(GinPeer.Part part, GinRing ends) {
    part.copies = out.begun();
    part.ends = ends;
    copying.add(part);
  }

  /** Publishes messages whose data are in their slots. */
  private int post() {
    if (copying.isEmpty()) {
      return 0;
    }
    int done = 0;
    long copied = out.done();
    while (!copying.isEmpty() && copying.peek().copies <= copied) {
      GinPeer.Part part = copying.poll();
      part.peer.post(part);
      if (part.ends != null) {
        part.ends.posted();
      }
      done++;
    }
    return done;
  }

  // ---- Receiving ----

  private int receive(GinPeer peer) {
    int done = 0;
    while (peer.hasStep() && take(peer)) {
      done++;
    }
    return done + peer.finish(in.done());
  }

  /** Begins what a step says; false if it has to wait. */
  private boolean take(GinPeer peer) {
    if (peer.isBehind()) {
      peer.takeData(in, peer.target(targets));
      return true;
    }
    switch (peer.bytes()) {
      case GinMessage.ACKNOWLEDGEMENT -> peer.acknowledge();
      case GinMessage.GET -> {
        return takeGet(peer);
      }
      default -> {
        return takePut(peer);
      }
    }
    return true;
  }

  /** False if the window is not here yet. */
  private boolean takeGet(GinPeer peer) {
    if (windows.isToCome(peer.window())) {
      return false;
    }
    if (peer.gets().isFull()) {
      throw otherVersion("rank %d gets more than it may at once".formatted(peer.rank()));
    }
    peer.takeGet();
    return true;
  }

  /**
   * False if the window or signal is not here yet, or data come that the network would write into
   * the window before earlier ones are copied there.
   */
  private boolean takePut(GinPeer peer) {
    int bytes = peer.bytes();
    int signal = peer.signal();
    boolean behind = bytes == GinMessage.BEHIND;
    if (bytes != 0 && windows.isToCome(peer.window())
        || signal > 0 && peer.communicator() > newest
        || behind && !peer.hasCopied(in.done())) {
      return false;
    }
    if (signal < 0 && peer.answered() == peer.asked()) {
      throw otherVersion("rank %d sends data that nobody has asked for".formatted(peer.rank()));
    }
    GinRing ring = signal <= 0 ? null : ring(peer, signal);
    if (behind) {
      peer.takeBehind(peer.target(targets, 0, peer.bytesBehind()), ring);
    } else {
      peer.takePut(in, bytes == 0 ? null : peer.target(targets, bytes, 0), ring);
    }
    return true;
  }

  private InvalidUsageException otherVersion(String what) {
    return new InvalidUsageException(
        ErrorId.HANDLE,
        what + " of " + checks.name(),
        "run the same version of nccl4j on all ranks");
  }

  /** The ring whose signal a message raises; null if it was closed, so that nobody waits. */
  private GinRing ring(GinPeer peer, int signal) {
    long number = peer.communicator();
    for (GinRing ring : rings) {
      if (ring.number() == number) {
        if (signal < 1 || signal > ring.signals()) {
          throw otherVersion(
              "rank %d raises signal %d of %d of device communicator %d"
                  .formatted(peer.rank(), signal - 1, ring.signals(), number));
        }
        return ring;
      }
    }
    return null;
  }

  // ---- The end ----

  @Override
  public synchronized void release() {
    for (GinRing ring : rings) {
      ring.stop();
    }
    outside.forEach(GinPeer::release);
  }

  @Override
  public boolean end() {
    over = true;
    release();
    return Patience.until(() -> !inside, LONGEST_TURN);
  }

  /** Frees all rings; after {@link #end}. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      for (GinRing ring : rings) {
        close(ring);
      }
      out.close();
      in.close();
    }
  }
}
