package org.nccl4j.device.kernel.gin;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.RmaMessage;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.device.support.Patience;

/**
 * Sends what kernels write into rings, and puts what other ranks send into this rank's windows.
 *
 * <p>A ring's descriptors are sent in order, each as one message or more, so a rank's messages
 * arrive in order and a signal after the data before it. One rank without a free slot holds the
 * ring up; that ends, since the receiving proxy waits for no kernel. Where all ranks are in the
 * team, rings have no slots, and need no turns: kernels only learn there that a wait is in vain.
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
    ConnectionLayout layout = of.layout;
    peers = new GinPeer[space.sends().size()];
    for (int rank = 0; rank < peers.length; rank++) {
      Connection to = space.sends().get(rank);
      if (to != null) {
        peers[rank] = new GinPeer(rank, to, space.recvs().get(rank), layout, device);
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
      return over ? 0 : work();
    } finally {
      inside = false;
    }
  }

  private int work() {
    int done = 0;
    for (GinPeer peer : outside) {
      done += receive(peer);
    }
    for (GinRing ring : rings) {
      done += send(ring);
    }
    for (GinPeer peer : outside) {
      if (peer.owesAcknowledgement()) {
        enqueue(peer.beginAcknowledgement(), null);
        done++;
      }
    }
    done += post();
    for (GinRing ring : rings) {
      done += ring.countArrived(peers);
    }
    return done;
  }

  // ---- Sending ----

  private int send(GinRing ring) {
    int done = 0;
    while (ring.hasWork()) {
      if (!ring.isSending()) {
        ring.take(checks);
      }
      GinPeer to = peers[ring.rank()];
      if (!to.hasCredit()) {
        return done;
      }
      int part = (int) Math.min(room, ring.left());
      if (part > 0) {
        out.begin(to.nextData(), ring.source(), part);
      }
      long message = to.next();
      GinPeer.Part begun =
          to.begin(ring.window(), ring.offset(), part, ring.signalOf(part), ring.number());
      enqueue(begun, ring.sent(part, message) ? ring : null);
      done++;
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
        part.ends.flushed();
      }
      done++;
    }
    return done;
  }

  // ---- Receiving ----

  private int receive(GinPeer peer) {
    int done = 0;
    while (peer.hasMessage() && take(peer)) {
      done++;
    }
    return done + peer.finish(in.done());
  }

  /** Begins what a message says; false if its window or signals are not here yet. */
  private boolean take(GinPeer peer) {
    if (peer.isAcknowledgement()) {
      peer.acknowledge();
      return true;
    }
    int bytes = peer.bytes();
    int signal = peer.signal();
    if (bytes != 0 && windows.isToCome(peer.window())
        || signal != 0 && peer.communicator() > newest) {
      return false;
    }
    GinRing ring = signal == 0 ? null : ring(peer, signal);
    if (bytes != 0) {
      long offset = peer.offset();
      long to = targets.of(peer.rank(), peer.window(), offset, bytes).address() + offset;
      in.begin(to, peer.data(), bytes);
    }
    peer.take(in.begun(), ring, signal - 1);
    return true;
  }

  /** The ring whose signal a message raises; null if it was closed, so that nobody waits. */
  private GinRing ring(GinPeer peer, int signal) {
    long number = peer.communicator();
    for (GinRing ring : rings) {
      if (ring.number() == number) {
        if (signal < 1 || signal > ring.signals()) {
          throw new InvalidUsageException(
              ErrorId.HANDLE,
              "rank %d raises signal %d of %d of device communicator %d of %s"
                  .formatted(peer.rank(), signal - 1, ring.signals(), number, checks.name()),
              "run the same version of nccl4j on all ranks");
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
