package org.nccl4j.api.init.connect;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.PxnTransport;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Connects this rank with others when an operation first needs it. The rank that needs it calls the
 * other over the bootstrap with its handles and gets the other's; both then connect. The other rank
 * need not plan anything: a thread that exists while there is something to connect answers for it.
 * If both call at once, each gets the same handles twice.
 *
 * <p>A call names the kind of the connections: operations' own, or those of puts, which are known
 * once the first window is registered. Both kinds are made alike, so a put connects the two ranks
 * that it is between and no others; a call that comes before the window waits for it.
 *
 * <p>A rank whose data leave through another rank of its host (PXN) calls that one too, with both
 * handles, once it has the receiver's. If that rank has closed, the sender uses its own device.
 *
 * <p>All fields are guarded by the lock of the rank's transports, which is not held while other
 * ranks are called and answered: they may be of this process. Any thread.
 */
public final class RuntimeConnections implements PeerConnector {
  private static final System.Logger LOG = DebugLog.of("NET");

  /** Calls of this rank that are under way at a time. */
  private static final int MOST_CALLS = 32;

  /** Numbers of the kinds in calls. */
  private static final byte OPERATIONS = 0;

  private static final byte PUTS = 1;
  private static final int KINDS = 2;

  /** In a call to a rank of this host that is to forward this rank's data. */
  private static final byte RELAY = 2;

  private static final int HEADER_BYTES = Integer.BYTES + 1;

  private static final long POLL_NANOS = 50_000;
  private static final long LONGEST_POLL_NANOS = 2_000_000;

  /** Longest time between two looks at whether another rank or the user ends the communicator. */
  private static final long LOOK_MILLIS = 20;

  /** A step does not wait for other ranks. */
  private static final Duration LONGEST_STEP = Duration.ofSeconds(5);

  /** The answer of a rank that forwards. */
  private static final byte[] FORWARDS = {1};

  private final String name;
  private final List<PeerInfo> peers;
  private final List<TransportRoutes.NamedTransport> transports;
  private final List<byte[]> points;
  private final Bootstrap bootstrap;
  private final Object lock;

  /** By their numbers in calls; those of puts are null before the first window. */
  private final Kind[] kinds = new Kind[KINDS];

  /** Links that this rank is to call for. */
  private final Queue<Link> wanted = new ArrayDeque<>();

  /** Links with both handles that are not connected. */
  private final List<Link> connecting = new ArrayList<>();

  /** Calls of other ranks. */
  private final Queue<Call> calls = new ArrayDeque<>();

  /** Calls of other ranks for puts, before this rank's first window. */
  private final List<Call> early = new ArrayList<>();

  /** Work to be done without the lock. */
  private List<Runnable> outside = new ArrayList<>();

  /** Links whose sender waits for a rank that is to be asked to forward. */
  private final Queue<Link> unasked = new ArrayDeque<>();

  /** Ends by which this rank forwards data of others that are not connected. */
  private final List<Relay> relaying = new ArrayList<>();

  private int callsUnderWay;
  private ProxyThread proxy;
  private Consumer<NcclException> onFailure;
  private Thread worker;
  private NcclException failure;
  private boolean stopped;

  /** Takes links that are connected, for reports. */
  private final ConnectionSetup setup;

  private record Call(byte[] request, Consumer<byte[]> answer) {}

  /** This rank's end of a connection that it forwards the data of, with the receiver's handle. */
  private record Relay(UncountedLink link, byte[] receiver, Call call) {
    Connector end() {
      return link.sender();
    }
  }

  /** The links of one kind, by peer. */
  private record Kind(byte number, LateEnds ends, Map<Integer, Link> links) {}

  /** Both connections with a peer, on their way. */
  private static final class Link {
    final Kind kind;
    final int peer;
    Connector sender;
    Connector receiver;
    ConnectHandles.Offer own;
    byte[] offer;
    ConnectHandles.Offer theirs;
    final List<CompletableFuture<byte[]>> calls = new ArrayList<>();
    boolean senderDone;

    /** True if a rank that was to forward has left before it did. */
    boolean isRelayGone;

    boolean connected;

    Link(Kind kind, int peer) {
      this.kind = kind;
      this.peer = peer;
    }

    @Override
    public String toString() {
      return theirs == null
          ? "it has not answered"
          : senderDone ? receiver.toString() : sender.toString();
    }
  }

  /**
   * Connections that are not made yet. Calls of other ranks are taken from now on, and answered
   * once it has started.
   *
   * @param name of the communicator
   * @param points meeting points of all ranks, by rank
   * @param verified which ranks are connected late, and how
   * @param transports all that this rank has
   */
  public RuntimeConnections(
      String name,
      List<PeerInfo> peers,
      List<byte[]> points,
      VerifiedConnections verified,
      List<TransportRoutes.NamedTransport> transports,
      Bootstrap bootstrap) {
    this.name = name;
    this.transports = transports;
    this.peers = peers;
    this.points = points;
    this.bootstrap = bootstrap;
    this.setup = verified.links();
    this.lock = setup.transportLock();
    kinds[OPERATIONS] =
        new Kind(
            OPERATIONS, new OperationEnds(verified.routes(), verified.late()), new HashMap<>());
  }

  /** The connections of operations between ranks that were not connected at the creation. */
  private final class OperationEnds implements LateEnds {
    private final List<TransportRoutes.NamedTransport> routes;
    private final Set<Integer> late;

    OperationEnds(List<TransportRoutes.NamedTransport> routes, Set<Integer> late) {
      this.routes = routes;
      this.late = late;
    }

    @Override
    public boolean has(int peer) {
      return late.contains(peer);
    }

    @Override
    public TransportRoutes.NamedTransport route(int peer) {
      return routes.get(peer);
    }

    @Override
    public Connector sender(int peer) {
      return routes.get(peer).transport().sender(peers.get(peer));
    }

    @Override
    public Connector receiver(int peer) {
      return routes.get(peer).transport().receiver(peers.get(peer));
    }

    @Override
    public void connected(int peer, Connector sender, Connector receiver) {
      proxy.attend(proxies(sender, receiver));
      setup.add(new ConnectedLink(peer, routes.get(peer).name(), sender, receiver));
    }
  }

  /** Returns what a proxy does for both ends. */
  static List<ProxyHandler> proxies(Connector sender, Connector receiver) {
    List<ProxyHandler> handlers = new ArrayList<>();
    sender.proxy().ifPresent(handlers::add);
    receiver.proxy().ifPresent(handlers::add);
    return handlers;
  }

  /**
   * Begins to answer other ranks.
   *
   * @param thread gives the connections their turns
   * @param listener receives, once, an error after which nothing is connected any more
   */
  public void start(ProxyThread thread, Consumer<NcclException> listener) {
    synchronized (lock) {
      proxy = thread;
      onFailure = listener;
      work();
    }
  }

  /** Takes another rank's call; as {@link Bootstrap.CallListener}. */
  public void called(byte[] request, Consumer<byte[]> answer) {
    synchronized (lock) {
      if (!stopped && failure == null) {
        calls.add(new Call(request, answer));
        work();
        return;
      }
    }
    answer.accept(null);
  }

  /**
   * Connects other ranks that call for puts, from now on.
   *
   * @param ends of puts
   */
  void openPuts(LateEnds ends) {
    synchronized (lock) {
      kinds[PUTS] = new Kind(PUTS, ends, new HashMap<>());
      if (!stopped && failure == null) {
        calls.addAll(early);
        early.clear();
        work();
      }
    }
  }

  /**
   * Connects with some ranks for puts, and waits until that is done.
   *
   * @throws NcclException as {@link #connect(Set)}
   */
  void connectPuts(Set<Integer> which) {
    connect(kinds[PUTS], which);
  }

  @Override
  public Map<Integer, Pair> connect(Set<Integer> which) {
    List<Link> links = connect(kinds[OPERATIONS], which);
    Map<Integer, Pair> pairs = new TreeMap<>();
    synchronized (lock) {
      for (Link link : links) {
        pairs.put(link.peer, new Pair(link.sender.connection(), link.receiver.connection()));
      }
    }
    return pairs;
  }

  private List<Link> connect(Kind kind, Set<Integer> which) {
    try {
      return connect(kind, which, bootstrap.exchangeEnd());
    } catch (TimeoutException | SystemErrorException e) {
      fail(e); // the others wait for this rank's operation
      throw e;
    }
  }

  private List<Link> connect(Kind kind, Set<Integer> which, long endNanos) {
    OpenFiles.Promise descriptors = OpenFiles.ofProcess().promise(need(kind, which));
    try {
      return connectPromised(kind, which, endNanos);
    } finally {
      descriptors.close();
    }
  }

  private OpenFiles.Need need(Kind kind, Set<Integer> which) {
    synchronized (lock) {
      List<Integer> missing =
          which.stream()
              .filter(peer -> kind.ends.has(peer) && !kind.links.containsKey(peer))
              .toList();
      return ConnectionSetup.need(bootstrap.rank(), missing, peers, kind.ends::route);
    }
  }

  private List<Link> connectPromised(Kind kind, Set<Integer> which, long endNanos) {
    List<Link> links = new ArrayList<>();
    synchronized (lock) {
      for (int peer : which) {
        if (!kind.ends.has(peer)) {
          throw new InternalErrorException(
              "there is no connection to rank " + peer, "report this as a defect");
        }
        Link link = kind.links.get(peer);
        if (link == null) {
          link = new Link(kind, peer);
          kind.links.put(peer, link);
          wanted.add(link);
        }
        links.add(link);
      }
      work();
      for (Link link : links) {
        while (!link.connected) {
          await(link, endNanos);
        }
      }
    }
    return links;
  }

  private void await(Link link, long endNanos) {
    if (failure != null) {
      throw failure.again();
    }
    bootstrap.checkFailure();
    if (stopped) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "communicator %s is closed while rank %d connects with rank %d"
              .formatted(name, bootstrap.rank(), link.peer),
          "close a communicator after its last operation");
    }
    if (System.nanoTime() - endNanos > 0) {
      throw new TimeoutException(
          ErrorId.NOT_CONNECTED,
          "rank %d of communicator %s is not connected with rank %d by the deadline: %s"
              .formatted(bootstrap.rank(), name, link.peer, link),
          "look at rank %d's log, or give more time (withInitTimeout or NCCL4J_INIT_TIMEOUT)"
              .formatted(link.peer));
    }
    try {
      lock.wait(LOOK_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InvalidUsageException(
          ErrorId.INTERRUPTED,
          "rank %d's thread was interrupted while it connected with rank %d"
              .formatted(bootstrap.rank(), link.peer),
          "do not interrupt a thread that calls an operation",
          e);
    }
  }

  /** Lets a thread take the pending steps. */
  private void work() {
    if (worker == null && proxy != null && !stopped && isWork()) {
      worker = DaemonThread.of(this::run, "nccl4j-connect-" + name);
      worker.start();
    }
  }

  private boolean isWork() {
    return failure == null
        && !(calls.isEmpty()
            && wanted.isEmpty()
            && unasked.isEmpty()
            && connecting.isEmpty()
            && relaying.isEmpty()
            && callsUnderWay == 0);
  }

  private void run() {
    long sleep = POLL_NANOS;
    while (true) {
      NcclException broken = null;
      List<Runnable> now;
      synchronized (lock) {
        if (stopped || !isWork()) {
          worker = null;
          return;
        }
        try {
          sleep = step() ? POLL_NANOS : Math.min(2 * sleep, LONGEST_POLL_NANOS);
        } catch (NcclException e) {
          broken = e;
        } catch (RuntimeException | Error e) {
          broken =
              new InternalErrorException(
                  "rank %d cannot connect with other ranks (%s)".formatted(bootstrap.rank(), e),
                  "report this with the stack trace",
                  e);
        }
        now = outside;
        outside = new ArrayList<>();
      }
      now.forEach(Runnable::run);
      if (broken != null) {
        fail(broken);
      }
      Patience.sleep(sleep);
    }
  }

  /** Another rank's failure, of which word may be on its way, is the cause. */
  private void fail(NcclException broken) {
    NcclException cause = broken;
    try {
      ConnectionSetup.awaitCause(bootstrap);
    } catch (NcclException told) {
      cause = told;
    }
    List<Runnable> last;
    synchronized (lock) {
      if (failure != null || stopped) {
        return;
      }
      failure = cause;
      last = endCalls();
      lock.notifyAll();
    }
    last.forEach(Runnable::run);
    onFailure.accept(cause);
  }

  /** Does what can be done now; returns whether that was anything. */
  private boolean step() {
    boolean any = false;
    while (!calls.isEmpty()) {
      answer(calls.remove());
      any = true;
    }
    while (callsUnderWay < MOST_CALLS && !unasked.isEmpty()) {
      ask(unasked.remove());
      any = true;
    }
    while (callsUnderWay < MOST_CALLS && !wanted.isEmpty()) {
      call(wanted.remove());
      any = true;
    }
    any |= relaying.removeIf(this::forwards);
    List<Link> done = connecting.stream().filter(this::progress).toList();
    done.forEach(this::connected);
    connecting.removeAll(done);
    return any || !done.isEmpty();
  }

  /** Makes this rank's ends, unless the other rank's call has done so. */
  private void begin(Link link) {
    if (link.offer == null) {
      LateEnds ends = link.kind.ends;
      link.sender = ends.sender(link.peer);
      link.receiver = ends.receiver(link.peer);
      link.own = ConnectHandles.Offer.of(link.sender, link.receiver, ends.route(link.peer));
      link.offer = call(link.kind.number, link.peer, link.own);
    }
  }

  private byte[] call(byte number, int peer, ConnectHandles.Offer offer) {
    byte[] handles = ConnectHandles.toBytes(Map.of(peer, offer));
    return ByteBuffer.allocate(HEADER_BYTES + handles.length)
        .putInt(bootstrap.rank())
        .put(number)
        .put(handles)
        .array();
  }

  private void call(Link link) {
    if (link.theirs != null) {
      return;
    }
    begin(link);
    callsUnderWay++;
    outside.add(
        () -> callNow(link, link.peer, link.offer, (answer, error) -> called(link, answer, error)));
  }

  /**
   * Asks a rank of this host to forward what a link's sender sends (PXN): a second kind of call,
   * which it answers once it has connected to the receiver and has handed its memory over.
   */
  private void ask(Link link) {
    ConnectHandles.Offer own = link.own;
    byte[] request =
        call(
            RELAY,
            link.peer,
            new ConnectHandles.Offer(
                own.sender(), link.theirs.receiver(), own.relay(), own.transport()));
    callsUnderWay++;
    outside.add(
        () -> callNow(link, own.relay(), request, (answer, error) -> asked(link, error != null)));
  }

  private void callNow(
      Link link, int rank, byte[] request, BiConsumer<byte[], Throwable> listener) {
    CompletableFuture<byte[]> call = bootstrap.call(points.get(rank), request);
    boolean over;
    synchronized (lock) {
      link.calls.add(call);
      over = stopped || failure != null;
    }
    call.whenComplete(listener);
    if (over) {
      call.cancel(false);
    }
  }

  /** A rank that is to forward has answered, or has left. */
  private void asked(Link link, boolean left) {
    synchronized (lock) {
      callsUnderWay--;
      link.isRelayGone = left;
    }
  }

  /** Takes a call of a rank of this host whose data this rank is to forward. */
  private void relay(Call call) {
    int from = ByteBuffer.wrap(call.request).getInt();
    if (from < 0 || from >= peers.size()) {
      throw notUnderstood();
    }
    ConnectHandles.relayedBy(bootstrap.rank(), from, handles(call.request))
        .forEach(
            (to, offer) -> {
              Connector end =
                  ConnectionSetup.forwarder(bootstrap.rank(), offer.transport(), from, transports)
                      .relay(peers.get(from), peers.get(to), offer.sender());
              UncountedLink link = new UncountedLink(to, offer.transport(), end);
              relaying.add(new Relay(link, offer.receiver(), call));
            });
  }

  /** Lets a relay take its next step; true once it forwards. */
  private boolean forwards(Relay relay) {
    if (!relay.end().connect(relay.receiver)) {
      return false;
    }
    proxy.attend(relay.end().proxy().stream().toList());
    setup.add(relay.link);
    outside.add(() -> relay.call.answer.accept(FORWARDS));
    return true;
  }

  /** Lets a link take its next step; true once both ends are connected. */
  private boolean progress(Link link) {
    link.senderDone = link.senderDone || link.sender.connect(link.theirs.receiver());
    if (!link.senderDone && link.isRelayGone) {
      PxnTransport by = (PxnTransport) link.kind.ends.route(link.peer).transport();
      link.sender = by.ownSender(peers.get(link.peer));
      link.isRelayGone = false;
      LOG.log(
          System.Logger.Level.DEBUG,
          "rank {0} sends to rank {1} itself: rank {2}, which was to forward, has closed",
          bootstrap.rank(),
          link.peer,
          link.own.relay());
    }
    return link.receiver.connect(link.theirs.sender()) && link.senderDone;
  }

  /** A call of this rank has ended. */
  private void called(Link link, byte[] answer, Throwable error) {
    NcclException broken = null;
    synchronized (lock) {
      callsUnderWay--;
      if (stopped || failure != null) {
        return;
      }
      try {
        if (error == null) {
          take(answer);
          work();
        } else if (link.theirs == null) {
          broken = unreachable(link.peer, error);
        }
      } catch (NcclException e) {
        broken = e;
      }
    }
    if (broken != null) {
      NcclException cause = broken;
      DaemonThread.of(() -> fail(cause), "nccl4j-connect-" + name).start();
    }
  }

  private NcclException unreachable(int peer, Throwable error) {
    return new SystemErrorException(
        ErrorId.UNREACHABLE,
        "rank %d of communicator %s cannot call rank %d to connect with it: %s"
            .formatted(bootstrap.rank(), name, peer, error.getMessage()),
        "see that its process still runs and its communicator is open, or connect all ranks when"
            + " the communicator is created (NCCL_RUNTIME_CONNECT=0)",
        error);
  }

  private void answer(Call call) {
    if (number(call.request) == RELAY) {
      relay(call);
      return;
    }
    if (kind(call.request) == null) {
      early.add(call);
      return;
    }
    byte[] offer = take(call.request).offer;
    outside.add(() -> call.answer.accept(offer));
  }

  /** The kind of connections that handles are for; null where it is not known here yet. */
  private Kind kind(byte[] offer) {
    byte number = number(offer);
    if (number < 0 || number >= KINDS) {
      throw notUnderstood();
    }
    return kinds[number];
  }

  private static byte number(byte[] call) {
    if (call.length < HEADER_BYTES) {
      throw notUnderstood();
    }
    return call[Integer.BYTES];
  }

  private static byte[] handles(byte[] call) {
    return Arrays.copyOfRange(call, HEADER_BYTES, call.length);
  }

  /** Takes another rank's handles. */
  private Link take(byte[] offer) {
    Kind kind = kind(offer);
    int peer = ByteBuffer.wrap(offer).getInt();
    if (kind == null || !kind.ends.has(peer)) {
      throw notUnderstood();
    }
    ConnectHandles.Offer theirs =
        ConnectHandles.find(peer, handles(offer), bootstrap.rank())
            .orElseThrow(RuntimeConnections::notUnderstood);
    Link link = kind.links.computeIfAbsent(peer, absent -> new Link(kind, absent));
    begin(link);
    if (link.theirs == null) {
      link.theirs = theirs;
      connecting.add(link);
      if (link.own.relay() >= 0) {
        unasked.add(link);
      }
    }
    return link;
  }

  private static NcclException notUnderstood() {
    return new InvalidUsageException(
        ErrorId.RANKS_DIFFER,
        "this rank cannot read another rank's request for a connection",
        "run the same version of nccl4j, with the same NCCL_RUNTIME_CONNECT, on all ranks");
  }

  private void connected(Link link) {
    link.kind.ends.connected(link.peer, link.sender, link.receiver);
    link.connected = true;
    lock.notifyAll();
  }

  /**
   * Ends it.
   *
   * @return whether no thread uses the transports any more
   */
  public boolean stop() {
    Thread last;
    List<Runnable> ends;
    synchronized (lock) {
      stopped = true;
      ends = endCalls();
      lock.notifyAll();
      last = worker;
    }
    ends.forEach(Runnable::run);
    return last == null || Patience.join(last, LONGEST_STEP);
  }

  /** Refuses calls and ends this rank's own; to be run without the lock. */
  private List<Runnable> endCalls() {
    List<Runnable> ends = new ArrayList<>();
    calls.addAll(early);
    early.clear();
    relaying.forEach(relay -> calls.add(relay.call));
    relaying.clear();
    calls.forEach(call -> ends.add(() -> call.answer.accept(null)));
    calls.clear();
    for (Kind kind : kinds) {
      if (kind != null) {
        kind.links.values().stream()
            .flatMap(link -> link.calls.stream())
            .forEach(call -> ends.add(() -> call.cancel(false)));
      }
    }
    return ends;
  }
}
