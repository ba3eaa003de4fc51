package org.nccl4j.api.bootstrap;

import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.root.FailureMessage;
import org.nccl4j.api.bootstrap.root.JoinMessage;
import org.nccl4j.api.bootstrap.root.JoinReply;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.bootstrap.root.RootPartition;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/**
 * The bootstrap over TCP: a connection to the rank's root, a ring among all ranks, and for the
 * first rank of each root's block a connection to the root before too (see {@link RootPartition}).
 */
public final class TcpBootstrap extends DeadlineBootstrap {
  private static final System.Logger LOG = DebugLog.of("BOOTSTRAP");

  private final JoinRequest request;
  private final ProcessIdentity self;
  private final EventLoop loop;
  private final RankMonitor monitor;
  private final FailureBroadcast failures;
  private final NoticeBroadcast notices;
  private final PeerCredentials trust;
  private final RootConnection control;

  /** Null for most ranks. */
  private final RootConnection asGuest;

  private final RingConnection ring;
  private final RejoinPoint meetings = new RejoinPoint();
  private final CallPoint calls;
  private volatile List<InetSocketAddress> here;
  private volatile FailureMessage ownFailure;
  private int sequence;

  private TcpBootstrap(JoinRequest request, ProcessIdentity self, Deadline deadline) {
    super(deadline);
    this.request = request;
    this.self = self;
    trust = PeerCredentials.of(request.secret(), request.options().tls());
    loop = EventLoop.acquire();
    calls = new CallPoint(loop);
    monitor = new RankMonitor(request.rank());
    failures = new FailureBroadcast(monitor);
    notices = new NoticeBroadcast(request.rank());
    control = link(request.roots().of(request.rank()));
    int host = request.roots().hostOf(request.rank());
    asGuest = host < 0 ? null : link(host);
    ring =
        new RingConnection(
            loop,
            monitor,
            failures,
            notices,
            trust,
            new RingConnection.Place(request.rank(), request.nRanks()),
            meetings,
            calls);
    failures.set(ring);
    notices.set(ring);
  }

  private RootConnection link(int root) {
    RootConnection made =
        new RootConnection(
            loop,
            monitor,
            request.ids().get(root),
            trust.with(request.ids().get(root).secret()),
            self,
            request.rank(),
            request.options().silence(),
            failures,
            notices);
    failures.add(made);
    notices.add(made);
    return made;
  }

  /**
   * Joins, and returns once all ranks have. Every rank calls it, each in a thread of its own.
   *
   * @throws org.nccl4j.device.TimeoutException naming the ranks that did not come in time
   * @throws InvalidUsageException if ranks disagree: another count, a rank twice, another version
   * @throws org.nccl4j.device.SystemErrorException if the root or the next rank cannot be reached,
   *     with address and reason
   * @throws org.nccl4j.device.RemoteException with another rank's failure
   */
  public static Bootstrap join(JoinRequest request) {
    return join(request, ProcessIdentity.ofThisProcess());
  }

  /**
   * Tells the other ranks that this one cannot join, where its root is known and answers soon;
   * never throws.
   *
   * @param ids as for joining
   */
  public static void tellUnable(
      int nRanks, List<BootstrapId> ids, int rank, NcclException cause, BootstrapOptions options) {
    if (nRanks > 1 && rank >= 0 && rank < nRanks && !ids.isEmpty() && ids.size() <= nRanks) {
      BootstrapId id = ids.get(new RootPartition(nRanks, ids.size()).of(rank));
      ProcessIdentity self = ProcessIdentity.ofThisProcess();
      FailureMessage failure =
          FailureMessage.of(cause, "rank %d (%s)".formatted(rank, self.text()));
      JoinRefusal.say(failure, id, PeerCredentials.of(id.secret(), options.tls()));
    }
  }

  /**
   * Tells the other ranks, as {@link #tellUnable(int, List, int, NcclException, BootstrapOptions)}
   * does, but also if this rank starts their root. Then it waits for them, at most until the
   * request's deadline.
   */
  public static void tellUnable(JoinRequest request, NcclException cause) {
    int own = request.roots().of(request.rank());
    if (!request.ids().get(own).startedByFirstRank()
        || request.rank() != request.roots().first(own)) {
      tellUnable(request.nRanks(), request.ids(), request.rank(), cause, request.options());
      return;
    }
    try (Bootstrap all = join(request)) {
      all.tellFailure(cause);
    } catch (NcclException e) {
      cause.addSuppressed(e);
    }
  }

  /** Joins under another identity, for tests. */
  static Bootstrap join(JoinRequest request, ProcessIdentity self) {
    RankMonitor none = new RankMonitor(request.rank());
    return join(request, self, Deadline.after(request.deadline()), none);
  }

  /**
   * Joins within what is left of a deadline.
   *
   * @param leader whose failure is also this one's, now and later
   */
  static Bootstrap join(
      JoinRequest request, ProcessIdentity self, Deadline deadline, RankMonitor leader) {
    TcpBootstrap made = new TcpBootstrap(request, self, deadline);
    leader.lead(made.monitor);
    try {
      made.form(deadline);
      return made;
    } catch (NcclException e) {
      made.tellFailure(e);
      if (e.id() == ErrorId.INTERRUPTED && !made.control.alive()) { // the root knows nothing of it
        tellUnable(request.nRanks(), request.ids(), request.rank(), e, request.options());
      }
      made.close();
      throw e;
    } catch (RuntimeException | Error e) {
      made.close();
      throw e;
    }
  }

  private void form(Deadline deadline) {
    RootPartition roots = request.roots();
    int rank = request.rank();
    int own = roots.of(rank);
    BootstrapOptions.Stagger stagger = request.options().stagger();
    monitor.pause(stagger.delay(rank - roots.first(own), request.nRanks()));
    BootstrapId id = request.ids().get(own);
    List<InetSocketAddress> addresses = HostResolver.resolve(id.addresses(), deadline);
    if (id.startedByFirstRank() && rank == roots.first(own)) {
      startRoot(id, addresses);
    }
    InetAddress local = control.connect(addresses, deadline);
    BootstrapOptions options = request.options();
    List<InetAddress> hosts =
        RingAddresses.choose(local, options.addresses(), options.interfaceFilter());
    int port = ring.listen(hosts.size() == 1 ? hosts.get(0) : null, options.ports());
    here = hosts.stream().map(host -> new InetSocketAddress(host, port)).toList();
    long millis = Math.max(1, deadline.leftNanos() / 1_000_000);
    control.introduce(hello(own, millis));
    if (asGuest != null) {
      BootstrapId other = request.ids().get(roots.hostOf(rank));
      asGuest.connect(HostResolver.resolve(other.addresses(), deadline), deadline);
      asGuest.introduce(hello(roots.hostOf(rank), millis));
    }
    JoinReply welcome = control.awaitWelcome(deadline);
    if (request.nRanks() > 1) {
      boolean alone = asGuest == null;
      ring.connect(alone ? welcome : welcome.after(asGuest.awaitWelcome(deadline)), deadline);
    }
    if (roots.count() > 1) {
      // A root knows of its own ranks alone.
      aroundTheRing(new byte[0], deadline);
    }
  }

  private JoinMessage hello(int root, long millis) {
    JoinMessage.Place place = new JoinMessage.Place(root, request.ids().size(), here);
    return new JoinMessage(self, request.rank(), request.nRanks(), millis, place);
  }

  private void startRoot(BootstrapId id, List<InetSocketAddress> addresses) {
    String name = id.addresses().get(0).getHostString();
    InetAddress host = BootstrapRoot.listening(name, addresses);
    boolean isReachable = host == null || !host.isLoopbackAddress();
    if (request.options().commSecret().isEmpty() && isReachable) {
      LOG.log(
          Level.WARNING,
          "anyone who can reach {0} can join this communicator, since NCCL_COMM_ID is not secret;"
              + " set NCCL4J_COMM_SECRET to the same value on all ranks",
          id.where());
    }
    BootstrapRoot.startForFirstRank(
        host,
        addresses.get(0).getPort(),
        trust.with(id.secret()),
        self,
        request.deadline(),
        request.options().observable());
  }

  /** The connection to this rank's root, for tests. */
  RootConnection root() {
    return control;
  }

  @Override
  public int rank() {
    return request.rank();
  }

  @Override
  public int nRanks() {
    return request.nRanks();
  }

  @Override
  public byte[] secret() {
    return request.secret();
  }

  @Override
  List<byte[]> exchange(byte[] mine, Deadline deadline) {
    if (mine.length > RingConnection.MAX_DATA_BYTES) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "rank " + rank() + " offers " + mine.length + " bytes for one bootstrap exchange",
          "the limit is " + RingConnection.MAX_DATA_BYTES);
    }
    return aroundTheRing(mine, deadline);
  }

  /** Every rank passes on what it gets, but for the next rank's own piece, which has been there. */
  private List<byte[]> aroundTheRing(byte[] mine, Deadline deadline) {
    checkUsable(deadline);
    byte[][] all = new byte[nRanks()][];
    all[rank()] = mine;
    sequence++;
    if (nRanks() > 1) {
      ring.pass(AllGatherBatch.own(sequence, rank(), mine));
    }
    int due = rank();
    for (int left = nRanks() - 1; left > 0; ) {
      due = Math.floorMod(due - 1, nRanks());
      AllGatherBatch pieces = ring.receive(due, deadline);
      if (pieces.sequence() != sequence
          || pieces.origin() != due
          || pieces.count() < 1
          || pieces.count() > left) {
        throw new InternalErrorException(
            ("rank %d received %d pieces that begin with rank %d's in exchange %d; they are of"
                    + " exchange %d, and rank %d's piece was due")
                .formatted(
                    rank(), pieces.count(), pieces.origin(), sequence, pieces.sequence(), due),
            "make the same exchanges in the same order on all ranks, or report this");
      }
      pieces.read(all);
      due = pieces.lastOrigin(nRanks());
      left -= pieces.count();
      AllGatherBatch goesOn = left > 0 ? pieces : pieces.withoutLast();
      if (goesOn != null) {
        ring.pass(goesOn);
      }
    }
    ring.flush();
    return Arrays.asList(all);
  }

  private void checkUsable(Deadline deadline) {
    monitor.await(() -> monitor.isUsable() ? true : null, deadline, null);
  }

  @Override
  public void tellFailure(NcclException cause) {
    if (!monitor.failedHere(cause)) {
      return;
    }
    FailureMessage failure = FailureMessage.of(cause, "rank " + rank() + " (" + self.text() + ")");
    ownFailure = failure;
    failures.tell(failure);
    monitor.deliverHere();
  }

  @Override
  public void onFailure(Consumer<NcclException> listener) {
    monitor.onFailure(listener);
  }

  @Override
  public void checkFailure() {
    NcclException failure = monitor.failure();
    if (failure != null) {
      throw failure.again();
    }
  }

  @Override
  public void tellNotice(byte[] notice) {
    notices.tell(notice);
  }

  @Override
  public void onNotice(Consumer<byte[]> listener) {
    notices.listen(listener);
  }

  @Override
  public void onAsked(UnaryOperator<byte[]> listener) {
    control.onAsked(listener);
    if (asGuest != null) {
      asGuest.onAsked(listener);
    }
  }

  @Override
  public byte[] meetingPoint() {
    return new RejoinAddress(here, rank()).encode();
  }

  @Override
  public void onCall(CallListener listener) {
    loop.execute(() -> calls.listen(listener));
  }

  @Override
  public CompletableFuture<byte[]> call(byte[] point, byte[] bytes) {
    RejoinAddress where = RejoinAddress.decode(point);
    PeerCall.Question question = PeerCall.Question.call(where.rank(), bytes);
    return PeerCall.begin(where, trust, question, request.deadline());
  }

  @Override
  public Bootstrap reunite(List<Integer> members, byte[] lead, String key) {
    return meet(members, lead, key, new RankMonitor(rank()));
  }

  @Override
  public Bootstrap subset(List<Integer> members, byte[] lead, String key) {
    return meet(members, lead, key, monitor);
  }

  /**
   * Brings some of the ranks together.
   *
   * @param leader whose failure ends it
   */
  private Bootstrap meet(List<Integer> members, byte[] lead, String key, RankMonitor leader) {
    if (members.size() == 1) {
      return LocalBootstrap.create(1, request.deadline()).get(0);
    }
    String whole = SubsetBootstrap.key(key, members);
    Bootstrap made =
        new SubsetBootstrap(request, self, whole, leader)
            .meet(
                members.indexOf(rank()),
                members.size(),
                lead,
                way -> loop.execute(() -> meetings.publish(whole, way)));
    loop.execute(() -> meetings.withdraw(whole));
    return made;
  }

  @Override
  public void close() {
    if (monitor.close()) {
      NcclException heard = monitor.failure();
      FailureMessage own = ownFailure;
      ring.leave(own != null || heard == null ? own : FailureMessage.of(heard, ""));
      if (asGuest != null) {
        asGuest.leave();
      }
      control.leave();
      loop.release();
    }
  }
}
