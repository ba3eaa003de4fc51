package org.nccl4j.transport.net.ib;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.io.IOException;
import java.nio.channels.Selector;
import java.time.Duration;
import java.util.List;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.failover.LinkWatch;
import org.nccl4j.transport.net.failover.Turn;
import org.nccl4j.transport.net.ib.control.ControlConnection;
import org.nccl4j.transport.net.ib.control.FailoverMessage;
import org.nccl4j.transport.net.ib.control.FailoverMessage.Kind;
import org.nccl4j.transport.net.ib.control.RemotePort;
import org.nccl4j.transport.net.ib.control.RemoteQpInfo;
import org.nccl4j.transport.net.ib.device.CompletionQueue;
import org.nccl4j.transport.net.ib.device.IbPort;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;
import org.nccl4j.transport.net.ib.verbs.WorkRequests;

/**
 * The common part of both ends of a connection. Used by one thread at a time, and looked after by
 * the communicator's {@link LinkWatch}: the one that has the turn owns all of it.
 */
abstract class IbConnection implements NetConnection, OpenConnections.Part, LinkWatch.Watched {
  private static final int IDLE_POLLS_BETWEEN_LOOKS = 32;
  private static final long LOOK_NANOS = 1_000_000;
  private static final long GRACE_NANOS = 200_000_000;
  private static final long PORT_LOOK_NANOS = 50_000_000;

  /** Settings of the connection. */
  final IbSettings settings;

  final LocalPorts ports;
  final int rank;
  final ClearToSend table = new ClearToSend();
  final Turn turn = new Turn();

  /** The queue pairs in use; null while those that were are broken and no others are there. */
  NicQueues queues;

  /** The queues with whose devices the memory is registered. */
  private NicQueues held;

  private final LinkWatch watch;

  /** Wakes the watch; one object, so that it can be taken back. */
  private final Runnable wake;

  /** The queues whose devices' events wake the watch; null if none do. */
  private NicQueues woken;

  private final NicQueues.Size size;
  private final IbMemories memories = new IbMemories();
  private final long patienceNanos;
  private ControlConnection link;

  /** Null where nothing can take over. */
  private QpFailover move;

  private RemoteQpInfo remote;
  private NcclException failure;
  private int idlePolls;
  private long lookedAt;
  private long askedPortsAt;
  private long overSince;
  private boolean smallOnesArrived;

  private String leftPath = "";

  /** The other end's reason to give up the connection; empty if it has told none. */
  private String givenUp = "";

  /** True if the queue pairs in use have moved data. */
  private boolean progressed;

  /** True while there are no queue pairs to use, and others may take over. */
  private volatile boolean broken;

  private volatile boolean closed;

  /** Opens the devices of the home NIC and makes queue pairs. */
  IbConnection(
      IbSettings settings, LocalPorts ports, NicQueues.Size size, int rank, LinkWatch watch) {
    this.settings = settings;
    this.ports = ports;
    this.size = size;
    this.rank = rank;
    this.watch = watch;
    this.wake = watch::wake;
    patienceNanos = (long) (settings.patienceSeconds() * 1e9);
    held = open(LocalPorts.HOME);
    queues = held;
  }

  /** New queue pairs at a NIC. */
  final NicQueues open(int nic) {
    return new NicQueues(settings, ports.get(nic), size, table);
  }

  /** Returns the information that this end sends to the other of queue pairs at a NIC. */
  final RemoteQpInfo describe(NicQueues at, int nic) {
    int offered = settings.failover().isZero() ? 0 : ports.count();
    return at.describe(rank, isSplit(), offered, nic);
  }

  /** Returns the information of the queue pairs in use, or of the last ones. */
  final RemoteQpInfo describe() {
    return describe(held, LocalPorts.HOME);
  }

  /** Talks with the other end over another control connection from now on. */
  final void talkOver(ControlConnection other) {
    link.close();
    link = other;
    link.goOn();
  }

  /** True if messages are split over the queue pairs. */
  abstract boolean isSplit();

  /** Connects the queue pairs to the other end's. */
  final void connectPairs(ControlConnection over, RemoteQpInfo other) {
    link = over;
    remote = other;
    queues.connect(settings, other);
  }

  /** Both ends are ready. */
  final void begin() {
    boolean known = remote.nic() < remote.nics();
    if (!settings.failover().isZero() && known) {
      move = newMove(settings.failover());
      watch.add(this);
    }
  }

  /** Returns this end's part in moves. */
  abstract QpFailover newMove(Duration bound);

  final RemoteQpInfo remote() {
    return remote;
  }

  final ControlConnection link() {
    return link;
  }

  /** Returns the path that was in use before, for people. */
  final String leftPath() {
    return leftPath;
  }

  /** Returns the path in use, for people. */
  final String path() {
    return held.path();
  }

  /** Returns the names of the path's ports. */
  final String portNames() {
    return held.local.name() + " to " + held.remote().portNames();
  }

  /** Returns that a port of the path is down, with the remedy; empty if all are up. */
  final String portTrouble() {
    List<String> down = LocalPorts.down(settings, held.local);
    return down.isEmpty()
        ? ""
        : "port %s is down (see its cable and switch, and ip link set up)"
            .formatted(String.join("+", down));
  }

  /** True if the queue pairs in use have moved data, or the last ones had. */
  final boolean hasProgressed() {
    return progressed;
  }

  /** Data have moved. */
  @HotPath
  final void progressed() {
    progressed = true;
  }

  // --- Progress, by the thread that has the turn ---

  /**
   * Takes the completions, if it is this thread's turn. A waiting thread calls it over and over.
   */
  @HotPath
  final void poll() {
    if (turn.enter()) {
      try {
        progress();
      } finally {
        turn.leave();
      }
    }
  }

  /** Takes the completions. */
  @HotPath
  final void progress() {
    if (failure != null) {
      throw failure.again();
    }
    if (queues == null) {
      return;
    }
    int count = takeCompletions();
    if (count > 0) {
      idlePolls = 0;
      overSince = 0;
    } else if (++idlePolls >= IDLE_POLLS_BETWEEN_LOOKS && queues != null) {
      idlePolls = 0;
      look(System.nanoTime());
    }
  }

  private int takeCompletions() {
    PortQueues[] all = queues.ports;
    int count = 0;
    for (int port = 0; port < all.length && queues != null; port++) {
      count += takeCompletions(port, all[port].completions);
    }
    return count;
  }

  private int takeCompletions(int port, CompletionQueue from) {
    try {
      int count = from.poll();
      int bad = -1;
      for (int i = 0; i < count; i++) {
        if (from.status(i) == WC_SUCCESS) {
          smallOnesArrived = true;
          completed(from.opcode(i), from.id(i), from.immediate(i));
        } else if (bad < 0) {
          bad = i;
        }
      }
      if (bad >= 0) {
        failed(port, from.status(bad), from.vendorError(bad));
      }
      return count;
    } catch (SystemErrorException e) {
      broke(e);
      return 0;
    }
  }

  private void failed(int port, int status, int vendorError) {
    NcclException error = failure(port, status, vendorError);
    if (isOfPath(status)) {
      broke(error);
    } else {
      throw fail(error);
    }
  }

  /** True if an error may be the path's, not that of what was asked for. */
  private static boolean isOfPath(int status) {
    return switch (status) {
      case WC_LOC_LEN_ERR, WC_LOC_PROT_ERR, WC_REM_ACCESS_ERR, WC_REM_OP_ERR -> false;
      default -> true;
    };
  }

  /**
   * Posts a chain. What an error keeps from being sent is sent by others, if these may take over.
   */
  @HotPath
  final void post(int pair, WorkRequests chain) {
    try {
      queues.pairs[pair].post(chain);
    } catch (SystemErrorException e) {
      broke(e);
    }
  }

  /** Posts a receive, as {@link #post}; its completion names the queue pair. */
  @HotPath
  final void postReceive(int pair) {
    try {
      queues.pairs[pair].postReceive(pair);
    } catch (SystemErrorException e) {
      broke(e);
    }
  }

  /** Something has begun to wait that the watch has to look after. */
  @HotPath
  final void endRest() {
    watch.endRest();
  }

  /** Something ended well. */
  abstract void completed(int opcode, long id, int immediate);

  /** Most bytes among the transfers under way: for the message about one that failed. */
  abstract int largestUnderWay();

  /** Looks, about once a millisecond, for what no completion tells. */
  private void look(long now) {
    if (now - lookedAt >= LOOK_NANOS) {
      lookedAt = now;
      lookAround(now);
    }
  }

  private void lookAround(long now) {
    if (queues != null) {
      try {
        queues.check(patienceNanos);
        if (queues.down() != null) {
          leaveDownPort(now);
        }
      } catch (SystemErrorException e) {
        broke(e);
      }
    }
    hear(now);
    if (queues == null && link.hasGoodbye()) {
      throw fail(move.cause());
    }
    if (!link.isOver() || move != null && move.isDialling()) {
      overSince = 0;
    } else if (queues == null) {
      throw fail(move.failure(gone().problem()));
    } else if (overSince == 0) {
      // Data that the other end sent before it closed may still be on the way.
      overSince = now;
    } else if (now - overSince > GRACE_NANOS) {
      throw fail(gone());
    }
  }

  /** Does not wait for a port to come up again if there is another one. */
  private void leaveDownPort(long now) {
    if (move == null || ports.count() == 1 || now - askedPortsAt < PORT_LOOK_NANOS) {
      return;
    }
    askedPortsAt = now;
    long others = ports.active(settings);
    PortQueues down = queues.down();
    if (others != 0 && down != null) {
      broke(
          new SystemErrorException(
              ErrorId.INFINIBAND,
              "port %s is down".formatted(down.local.port().name()),
              "see its cable and switch, and ip link set up"));
    }
  }

  private void hear(long now) {
    for (FailoverMessage each = link.poll(); each != null; each = link.poll()) {
      if (each.kind() == Kind.GIVE_UP) {
        givenUp = each.reason();
      } else if (move != null) {
        move.take(each, now);
      }
    }
  }

  private RemoteException gone() {
    String here = held.local.name();
    String ended =
        givenUp.isEmpty()
            ? "has closed its InfiniBand connection to %s, or died".formatted(here)
            : "has given up its InfiniBand connection to %s: %s".formatted(here, givenUp);
    return new RemoteException(
        ErrorId.CONNECTION, remote.describe() + " " + ended, "see that rank's first error");
  }

  // --- Failover ---

  /**
   * Takes an error of the queue pairs in use: others take over.
   *
   * @throws NcclException the error if none can
   */
  final void broke(NcclException error) {
    boolean hopeless =
        move == null
            || link.hasGoodbye()
            || link.isOver() && !move.isDialling()
            || held.isFatal() && !ports.spanDevices();
    if (hopeless) {
      throw fail(error);
    }
    move.begin(error);
    watch.wake();
  }

  @Override
  public final boolean look() {
    if (closed || !turn.enterNext()) {
      return broken;
    }
    try {
      if (!closed && failure == null) {
        long now = System.nanoTime();
        link.goOn();
        progress();
        lookAround(now);
        move.step(now);
        return queues == null || goOn() || move.isUnderWay();
      }
    } catch (NcclException e) {
      if (failure == null) {
        fail(e);
      }
    } finally {
      turn.leave();
    }
    return broken;
  }

  @Override
  public final void lookFailed(Throwable e) {
    if (!turn.enterSoon()) {
      return; // its user finds the error too
    }
    try {
      if (!closed && failure == null) {
        fail(
            new InternalErrorException(
                "an InfiniBand connection failed unexpectedly (%s)".formatted(e),
                "report this with the stack trace",
                e));
      }
    } finally {
      turn.leave();
    }
  }

  @Override
  public boolean isUnderWay() {
    return false;
  }

  /** True if nobody waits for something that only the watch would notice. */
  abstract boolean isIdle();

  /**
   * {@inheritDoc} What breaks an idle connection is an event of a device, or comes from the other
   * end. What an adapter reports with a completion is found once the connection is used.
   */
  @Override
  public final boolean mayRest(Selector selector) throws IOException {
    if (closed || failure != null) {
      return true;
    }
    if (!turn.enter()) {
      return false;
    }
    try {
      if (closed || queues == null || !isIdle() || !move.mayRest()) {
        return closed;
      }
      leaveEvents();
      woken = queues;
      woken.wake(wake);
      queues.check(patienceNanos);
      return queues.down() == null && link.mayRest(selector);
    } catch (NcclException e) {
      return false; // the next look finds it too
    } finally {
      turn.leave();
    }
  }

  @Override
  public final void rested(long now) {
    if (turn.enter()) {
      leaveEvents();
      turn.leave();
    }
  }

  private void leaveEvents() {
    if (woken != null) {
      woken.leave(wake);
      woken = null;
    }
  }

  /** Ends the queue pairs in use. What has come until now counts. */
  final void stop() {
    if (queues == null) {
      return;
    }
    NicQueues old = queues;
    queues = null;
    leftPath = old.path();
    broken = true;
    drain(old);
    old.stop();
    drain(old);
    stopped();
  }

  private void drain(NicQueues old) {
    for (PortQueues port : old.ports) {
      drain(port.completions);
    }
  }

  private void drain(CompletionQueue old) {
    try {
      for (int count = old.poll(); count > 0; count = old.poll()) {
        for (int i = 0; i < count; i++) {
          if (old.status(i) == WC_SUCCESS) {
            completed(old.opcode(i), old.id(i), old.immediate(i));
          }
        }
      }
    } catch (SystemErrorException e) {
      // Of what this queue does not tell, the other end says whether it has it.
      return;
    }
  }

  /** The queue pairs in use have ended. */
  abstract void stopped();

  /** Goes on with what no request waits for; true if some of it is left. */
  abstract boolean goOn();

  /**
   * Registers the memory with the devices of other queues, and ends the ones in use.
   *
   * @throws NcclException if a device does not take it; nothing has changed then
   */
  final void adopt(NicQueues others) {
    boolean moves = !others.devices().equals(held.devices());
    if (moves) {
      memories.prepare(others.devices(), settings.relaxed());
    }
    stop();
    if (moves) {
      memories.move();
    }
    NicQueues old = held;
    held = others;
    old.close();
  }

  /** Uses queues that have been adopted. */
  final void use(NicQueues others) {
    queues = others;
    progressed = false;
    broken = false;
    overSince = 0;
  }

  /** Gives up queues that will not be used. */
  final void release(NicQueues others) {
    if (others == held) {
      others.stop();
      stopped(); // the other end may have used them already
    } else {
      others.close();
    }
  }

  private NcclException fail(NcclException error) {
    failure = error;
    broken = false;
    if (move != null) {
      link.close(); // so that the other end need not wait for this one
      watch.wake(); // a watch that rests would keep it open
    }
    return error;
  }

  private NcclException failure(int port, int status, int vendorError) {
    LocalQpInfo local = held.ports[port].local;
    OpenDevice device = held.ports[port].device;
    String name = device.verbs().statusName(status);
    String trouble = device.events().trouble();
    String problem =
        "InfiniBand: a transfer between %s (GID %s) and %s failed: %s (status %d, vendor %d)%s"
            .formatted(
                local.port().name(),
                local.gid(),
                held.remote().describe(),
                name,
                status,
                vendorError,
                trouble.isEmpty() ? "" : "; before that, " + trouble);
    int there = held.remote().ports().stream().mapToInt(RemotePort::mtu).min().orElseThrow();
    return new RemoteException(
        ErrorId.CONNECTION, problem, remedy(status, local.port().mtu(), there));
  }

  /** The remedy, with the MTUs of the two ends. */
  private String remedy(int status, int here, int there) {
    int mtu = IbPort.mtuBytes(Math.min(here, there));
    return switch (status) {
      case WC_RETRY_EXC_ERR ->
          (smallOnesArrived && largestUnderWay() > 256
                  ? "small packets arrived before, so suspect the MTU: packets of %d bytes have to"
                          .formatted(mtu)
                      + " pass every switch on the way; set the interfaces of both hosts to what"
                      + " the"
                      + " network takes (ip link set mtu), ports are at %d and %d bytes. Else see"
                          .formatted(IbPort.mtuBytes(here), IbPort.mtuBytes(there))
                  : "see")
              + " that the other rank is alive, that the two GIDs reach each other (ping), and that"
              + " UDP port 4791 is open for RoCE; raise NCCL_IB_TIMEOUT on a"
              + " lossy network (now given up after %.1f s)".formatted(settings.patienceSeconds());
      case WC_REM_ACCESS_ERR, WC_REM_OP_ERR ->
          "the other rank freed or closed the memory of a receive; see its first error";
      case WC_WR_FLUSH_ERR -> "see the first error of this connection";
      default -> "see the kernel's log (dmesg) for the adapter";
    };
  }

  @Override
  public final NetMemory register(DeviceMemory memory) {
    return register(memory, Leases.of(memory));
  }

  @Override
  public final NetMemory register(DeviceMemory memory, Object registration) {
    checkOpen();
    takeTurn();
    try {
      return memories.add(
          new IbMemory(memory, registration, null, null, held.devices(), settings.relaxed()));
    } finally {
      turn.leave();
    }
  }

  @Override
  public final NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
    checkOpen();
    if (fd < 0 || offset < 0) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "dma-buf %d with offset %d cannot be registered".formatted(fd, offset),
          "pass an open dma-buf and where the memory begins in it");
    }
    takeTurn();
    try {
      boolean movable = move != null && ports.moveMemory();
      KeptDmaBuf kept = movable ? KeptDmaBuf.of(fd) : null;
      IbMemory.DmaBuf from = new IbMemory.DmaBuf(fd, offset);
      return memories.add(
          new IbMemory(memory, null, from, kept, held.devices(), settings.relaxed()));
    } finally {
      turn.leave();
    }
  }

  /** Takes the turn once the watch gives it back, which is soon. */
  final void takeTurn() {
    if (!turn.enterSoon()) {
      throw new InternalErrorException(
          "an InfiniBand connection is kept by another thread", "report this with jstack's output");
    }
  }

  /** The memory of a message, which has to be one of this device's and to hold it. */
  @HotPath
  static IbMemory checked(NetMemory memory, long offset, int bytes) {
    if (!(memory instanceof IbMemory)) {
      throw notRegistered();
    }
    IbMemory own = (IbMemory) memory;
    if (own.isClosed() || offset < 0 || bytes < 0 || offset > own.memory().size() - bytes) {
      throw outside(own, offset, bytes);
    }
    return own;
  }

  private static InvalidUsageException notRegistered() {
    return new InvalidUsageException(
        ErrorId.HANDLE,
        "a message is in memory that is not registered with its InfiniBand connection",
        "register the memory with this connection first");
  }

  private static InvalidArgumentException outside(IbMemory memory, long offset, int bytes) {
    return new InvalidArgumentException(
        ErrorId.BUFFER,
        "a message of %d bytes at %d is not in the registered memory (%s)"
            .formatted(bytes, offset, memory.isClosed() ? "closed" : memory.memory()),
        "pass a part of memory whose registration is open");
  }

  @Override
  public final boolean isClosed() {
    return closed;
  }

  final void checkOpen() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "an InfiniBand connection is used after close",
          "close connections after their last use");
    }
  }

  /** True if the other end need not mind that this one closes. */
  abstract boolean endsInOrder();

  /** Frees what the subclass has. */
  abstract void closeOwn();

  @Override
  public final void close() {
    watch.remove(this);
    boolean mine = turn.enterSoon();
    try {
      if (!closed) {
        closed = true;
        end();
      }
    } finally {
      if (mine) {
        turn.leave();
      }
    }
  }

  private void end() {
    CloseAll all = new CloseAll();
    if (link != null && failure == null && endsInOrder()) {
      all.take(link::sayGoodbye);
    }
    if (move != null) {
      all.take(move::close);
    }
    all.take(held::stop);
    all.take(this::leaveEvents);
    all.take(this::closeOwn);
    all.take(memories::close);
    all.take(held::close);
    if (link != null) {
      all.take(link::close);
    }
    all.end();
  }
}
