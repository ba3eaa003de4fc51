package org.nccl4j.api.observe;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.nccl4j.api.observe.flight.FlightFile;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.StateMessage;
import org.nccl4j.api.observe.span.SpanLogs;
import org.nccl4j.api.observe.span.SpanQuestion;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.support.CopyWays;
import org.nccl4j.device.support.DaemonThread;
import org.nccl4j.device.support.Patience;

/**
 * Checks all communicators of the process a few times a second: records their progress, and reports
 * a failure to the other ranks. One daemon thread, which ends when there is no communicator. It
 * costs an operation nothing.
 */
public final class ProgressMonitor {
  private static final System.Logger LOG = DebugLog.of("RAS");
  private static final long PERIOD_NANOS = 50_000_000;

  /** The driver may hang in one, and with it what it looks at. */
  private static final long LONGEST_LOOK_NANOS = 30_000_000_000L;

  /** After data of another call, while records do not tell which. */
  private static final int MOST_LOOKS = 50;

  private static final long NANOS_BETWEEN_LOOKS = 2_000_000;

  /** Links that each look may look at. */
  private static final int FEW_LINKS = 64;

  /** A look that is later than this says nothing of the time before. */
  private static final long MOST_MILLIS_BETWEEN_LOOKS = 200;

  /** Looks after which the links are looked at although nothing was launched. */
  private static final int LOOKS_FOR_LINKS = 20;

  /** Time between looks for conflicts, where they are wanted. */
  private static final long COMPARE_MILLIS = 1000;

  private static final List<ProgressMonitor> ALL = new CopyOnWriteArrayList<>();

  /** Notices of what the ranks of other processes wait for. */
  private static final OrderNotice.Heard HEARD = new OrderNotice.Heard();

  /** Ranks, of any process, that have closed. */
  private static final Departures DEPARTED = new Departures();

  /** Time at which a long wait was last reported, by communicator. */
  private static final Map<Long, Long> WARNED = new ConcurrentHashMap<>();

  private static Thread thread;

  private final FlightRecorder log;
  private final FlightRecorder.Rank rank;
  private final KernelCommunicator kernels;
  private final Connections connections;
  private final Options options;
  private final JfrRecorder recording;

  /**
   * Held during a look. An observer never waits for the look of another one while it holds its own.
   */
  private final ReentrantLock looking = new ReentrantLock();

  private volatile boolean closed;
  private boolean told;
  private boolean reported;
  private long comparedMillis;
  private final CallWatch calls;
  private final RemoteCalls remoteCalls;
  private final LongWait longWait = new LongWait();
  private final Supplier<List<? extends Link>> links;

  /** Looks since the links were looked at, and the launches at that time. */
  private int linkLooks;

  private long linkLaunches;
  private boolean fewLinks = true;

  /** Time of the last look, in ms since 1970. */
  private long lookedMillis;

  /**
   * Failed looks at the waits for closed memory and streams, counted as {@link #failedLooks} is.
   */
  private static int failedLooksAtProcess;

  /** Looks that ended with an error. Owned by the observer's thread; for debuggers. */
  private int failedLooks;

  /**
   * Options that users set beside the recorder.
   *
   * @param counts whether each launch runs once, so that the ranks' can be compared by number
   * @param compares whether to look for communicators that are used in different order
   * @param file where the recorder is written after a failure; empty for nowhere
   * @param recorded operations a second of a recording of Java Flight Recorder; 0: all
   * @param info log of a failure
   */
  public record Options(
      boolean counts, boolean compares, String file, int recorded, InfoLog info) {}

  /** Connections of a communicator, perhaps shared with others. */
  public interface Connections {
    /** Called once when it has failed, soon after. */
    void failed();

    /** Tells the ranks of other processes something that they can do without. */
    void tell(byte[] notice);

    /** The numbers of all communicators whose operations go by them, in one order. */
    Set<Long> users();

    /** An object that these connections have in common with those of splits. */
    Object job();
  }

  private ProgressMonitor(
      FlightRecorder log,
      FlightRecorder.Rank rank,
      KernelCommunicator kernels,
      OperationHooks hooks,
      Connections connections,
      Supplier<List<? extends Link>> links,
      Options options) {
    this.options = options;
    this.links = links;
    this.log = log;
    this.rank = rank;
    this.kernels = kernels;
    this.connections = connections;
    this.calls = new CallWatch(rank.rank());
    this.remoteCalls = new RemoteCalls(rank.rank());
    this.recording = new JfrRecorder(log, rank, hooks, options.recorded, connections.job());
  }

  /**
   * Begins to look at a communicator.
   *
   * @param hooks where it listens for operations while a recording asks for them
   * @param links of this communicator that are connected by now
   */
  public static ProgressMonitor watch(
      FlightRecorder log,
      FlightRecorder.Rank rank,
      KernelCommunicator kernels,
      OperationHooks hooks,
      Connections connections,
      Supplier<List<? extends Link>> links,
      Options options) {
    ProgressMonitor observer =
        new ProgressMonitor(log, rank, kernels, hooks, connections, links, options);
    boolean begun = false;
    try {
      observer.begin();
      begun = true;
    } finally {
      if (!begun) {
        observer.recording.close();
      }
    }
    return observer;
  }

  private void begin() {
    kernels.explainDeadlines(this::explain, this::remedy);
    kernels.explainMismatches(this::calls);
    synchronized (ProgressMonitor.class) {
      if (thread == null || !thread.isAlive()) {
        thread = DaemonThread.of(ProgressMonitor::run, "nccl4j-observer");
        thread.start(); // fails where the system has no room for a thread
      }
      ALL.add(this);
    }
  }

  /** Receives a notice that ranks of other processes sent by {@link Connections#tell}. */
  public static void heard(byte[] notice) {
    OrderNotice.decode(notice).ifPresent(HEARD::add);
    Departure.decode(notice).ifPresent(DEPARTED::add);
    CallNotice.decode(notice).ifPresent(ProgressMonitor::heard);
  }

  /**
   * This rank's answer to an observer of the job: about its communicator, and all that were split
   * from it, with connections of their own or not.
   *
   * @param question empty for the state, or a {@link SpanQuestion}; of another the answer is empty
   */
  public static byte[] answer(Object job, byte[] question) {
    return question.length == 0
        ? state(job)
        : SpanQuestion.decode(question).map(asked -> spans(job, asked)).orElse(new byte[0]);
  }

  /** A question may come after the last communicator has closed, and none would end a recording. */
  private static synchronized byte[] spans(Object job, SpanQuestion asked) {
    return ALL.stream().anyMatch(each -> each.connections.job() == job)
        ? SpanLogs.answer(job, asked, System.nanoTime())
        : SpanLogs.nothing();
  }

  private static byte[] state(Object job) {
    return StateMessage.encode(
        ALL.stream()
            .filter(each -> each.connections.job() == job)
            .map(ProgressMonitor::ownReport)
            .toList());
  }

  private static void heard(CallNotice notice) {
    for (ProgressMonitor each : ALL) {
      if (each.rank.communicator() == notice.communicator()) {
        each.remoteCalls.hear(notice);
      }
    }
  }

  /**
   * Tells the other ranks that this one calls no more operations: those who have called more than
   * it, or do so later, fail. Nothing may be launched afterwards.
   */
  public void depart() {
    Departure departure = Departure.of(log, rank, !kernels.isInGraphs());
    DEPARTED.add(departure);
    connections.tell(departure.encode());
  }

  /**
   * Ends it, and the recorder; a failure since the last look is still reported. Nobody looks at the
   * communicator's kernels afterwards, so they may be closed then; only a look that hangs is not
   * waited for.
   */
  public void close() {
    long communicator = rank.communicator();
    synchronized (ProgressMonitor.class) {
      ALL.remove(this);
      if (ALL.stream().noneMatch(other -> other.rank.communicator() == communicator)) {
        DEPARTED.isOver(communicator);
      }
      if (ALL.stream().noneMatch(other -> other.connections.job() == connections.job())) {
        SpanLogs.end(connections.job());
      }
    }
    WARNED.remove(communicator);
    boolean mine = awaitLook();
    try {
      if (mine && !closed && kernels.failure() != null) {
        lookNow();
      }
      closed = true;
      recording.close();
    } finally {
      if (mine) {
        looking.unlock();
      }
    }
    log.close();
  }

  /** An interruption does not shorten it: the recorders that a look reads are closed next. */
  private boolean awaitLook() {
    long end = System.nanoTime() + LONGEST_LOOK_NANOS;
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return looking.tryLock(end - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static void run() {
    boolean goesOn = true;
    while (goesOn) {
      ALL.forEach(ProgressMonitor::lookWhateverHappens);
      lookAtProcess();
      SpanLogs.endOverdue(System.nanoTime());
      Patience.parkOwn(ProgressMonitor.class, PERIOD_NANOS);
      synchronized (ProgressMonitor.class) {
        if (ALL.isEmpty()) {
          thread = null;
          goesOn = false;
        }
      }
    }
    lookAtProcess(); // what was closed after the last look
  }

  /** An error of the log must not end the looks at communicators. */
  private static void lookAtProcess() {
    try {
      Leases.logOverdue();
      CopyWays.ofProcess().look(System.nanoTime());
    } catch (RuntimeException | Error e) {
      failedLooksAtProcess++;
    }
  }

  /** The thread looks at all communicators, so not even an error of the log may end it. */
  private void lookWhateverHappens() {
    try {
      look();
    } catch (Throwable e) {
      failedLooks++; // to log it has failed too
    }
  }

  private void look() {
    looking.lock();
    lookAndUnlock();
  }

  /** A look at a time, in ms since 1970. */
  void look(long nowMillis) {
    looking.lock();
    try {
      lookNow(nowMillis);
    } finally {
      looking.unlock();
    }
  }

  /** Unless another thread is about it. */
  private void tryLook() {
    if (looking.tryLock()) {
      lookAndUnlock();
    }
  }

  private void lookAndUnlock() {
    try {
      if (!closed) {
        lookNow();
      }
    } finally {
      looking.unlock();
    }
  }

  /** Looks now. A failure in one communicator must not end the looks at the others. */
  private void lookNow() {
    lookNow(System.currentTimeMillis());
  }

  private void lookNow(long nowMillis) {
    try {
      log.observe(kernels, nowMillis);
      lookAtLinks(nowMillis);
      recording.look(kernels);
      failWithoutDeparted();
      if (options.counts) {
        compareCalls(System.currentTimeMillis());
      }
      if (options.compares) {
        compare(nowMillis);
      }
      warn(nowMillis);
    } catch (RuntimeException | Error e) {
      report(e);
    }
    try {
      tell();
    } catch (RuntimeException | Error e) {
      report(e);
    }
  }

  /** The links of a communicator without operations, or with many, are looked at once a second. */
  private void lookAtLinks(long nowMillis) {
    long launches = log.launchedSoFar();
    boolean works = launches != linkLaunches || log.isUnderWay();
    if (works && fewLinks || ++linkLooks >= LOOKS_FOR_LINKS) {
      List<? extends Link> all = links.get();
      linkLooks = 0;
      linkLaunches = launches;
      fewLinks = all.size() <= FEW_LINKS;
      log.observe(all, kernels);
    }
    long since = lookedMillis == 0 ? 0 : Math.max(0, nowMillis - lookedMillis);
    lookedMillis = nowMillis;
    if (log.hasFlows()) {
      log.observeFlows(Math.min(since, MOST_MILLIS_BETWEEN_LOOKS), areConnectionsUsed());
    }
  }

  /** True if an operation is under way of this communicator, or of one that shares connections. */
  private boolean areConnectionsUsed() {
    return log.isUnderWay()
        || connections.users().size() > 1
            && ALL.stream()
                .anyMatch(each -> each.connections == connections && each.log.isUnderWay());
  }

  /**
   * Fails operations that departed ranks have missed, except in graphs: only the driver knows how
   * many operations graphs repeat.
   */
  private void failWithoutDeparted() {
    List<Departure> departed = DEPARTED.of(rank.communicator());
    if (!departed.isEmpty() && kernels.failure() == null && !kernels.isInGraphs()) {
      int waitsFor = log.isUnderWay() ? kernels.waitsFor() : -1;
      Departures.missed(departed, log, rank, waitsFor).ifPresent(kernels::abort);
    }
  }

  /** One line for an operation that has waited for long: its deadline may be hours away. */
  private void warn(long nowMillis) {
    boolean waits = log.isUnderWay() && log.waitsFor() >= 0;
    if (longWait.isDue(log.ended(), waits, nowMillis)
        && kernels.failure() == null
        && isFirstToWarn(nowMillis)) {
      LOG.log(
          Level.WARNING,
          ("rank %d has waited more than %d s in an operation, which fails at its deadline"
                  + " (NCCL4J_TIMEOUT): %s")
              .formatted(rank.rank(), LongWait.MILLIS / 1000, explain()));
    }
  }

  /** Ranks of one process wait together, and one of them logs it for all. */
  private boolean isFirstToWarn(long nowMillis) {
    Long before = WARNED.put(rank.communicator(), nowMillis);
    return before == null || nowMillis - before > LongWait.MILLIS / 2;
  }

  private void report(Throwable e) {
    if (!reported) {
      reported = true;
      LOG.log(
          Level.ERROR,
          ("the progress of rank %d of %s cannot be read, and later reports about it may be"
                  + " outdated; this is logged once")
              .formatted(rank.rank(), rank.name()),
          e);
    }
  }

  private void tell() {
    if (!told && kernels.failure() != null) {
      told = true;
      options.info.tell("RAS", () -> "has failed: " + kernels.failure().getMessage());
      try {
        connections.failed();
      } catch (RuntimeException e) {
        LOG.log(Level.ERROR, "a failure could not be reported", e);
      }
      if (!options.file.isEmpty()) {
        FlightFile.open(rank.operations()).save(options.file, rank.communicator());
      }
    }
  }

  /**
   * Returns the rank that is behind when a deadline has passed, from all recorders that this
   * process can read.
   */
  private String explain() {
    ALL.forEach(ProgressMonitor::tryLook);
    Map<Long, List<RankReport>> all = Diagnosis.byCommunicator(reports());
    List<RankReport> ours = all.get(rank.communicator());
    return ours == null
        ? ""
        : Diagnosis.ofHang(ours, DEPARTED.of(rank.communicator())) + explainOrder(all) + threads();
  }

  /** The remedy of a wait past its deadline, as far as records tell; may be empty. */
  private String remedy() {
    List<RankReport> ours = Diagnosis.byCommunicator(reports()).get(rank.communicator());
    return ours == null ? "" : Diagnosis.remedyOfHang(ours);
  }

  /**
   * A hint for a thread that waits for one rank before it calls for the next: then some rank of
   * this process is in no operation.
   */
  private String threads() {
    List<RankReport> here = ours(FlightReader.ofThisProcess(rank.operations()));
    return here.size() < 2 || here.stream().allMatch(each -> each.current() != null)
        ? ""
        : "; this process has several ranks: a thread that calls for more than one of them needs"
            + " Group.run, or a thread for each rank";
  }

  /**
   * Returns the other calls that wait on the same connections because of another order of calls.
   */
  private String explainOrder(Map<Long, List<RankReport>> all) {
    String others =
        connections.users().stream()
            .filter(id -> id != rank.communicator() && all.containsKey(id))
            .map(all::get)
            .filter(ranks -> ranks.stream().anyMatch(each -> each.current() != null))
            .map(ranks -> "; " + Diagnosis.ofHang(ranks, List.of()))
            .collect(Collectors.joining());
    return others.isEmpty()
        ? ""
        : others
            + "; these communicators share connections, so that all ranks have to call their"
            + " operations in one order: if they do not,"
            + " CommunicatorConfig.withSplitShare(false) gives a split its own";
  }

  /**
   * Returns the calls that this rank and another are in, after data of another call have come from
   * that rank.
   */
  private String calls(int peer) {
    // A kernel may run before its launch is on record.
    String known = "";
    for (int look = 0; look < MOST_LOOKS && known.isEmpty(); look++) {
      if (look > 0) {
        Patience.sleep(NANOS_BETWEEN_LOOKS);
      }
      ALL.forEach(ProgressMonitor::tryLook);
      known = CallConflict.between(ranks(), rank.rank(), peer);
      if (known.isEmpty()) {
        known = told();
      }
    }
    return known;
  }

  /**
   * Returns what another rank says of such data; empty if it says nothing. A rank that has closed
   * after this error has no record that could be read.
   */
  private String told() {
    NcclException told = kernels.failure();
    return told instanceof RemoteException
            && told.getCause() instanceof NcclException cause
            && cause.id() == ErrorId.CALLS_DIFFER
        ? told.problem()
        : "";
  }

  /** Ends what waits for ever because another rank has made another call. */
  private void compareCalls(long nowMillis) {
    if (kernels.failure() != null) {
      return;
    }
    long waiting = kernels.waitsFor() >= 0 ? kernels.ended() : -1;
    calls
        .look(waiting, nowMillis, this::ranks)
        .or(() -> remoteCalls.look(this::ownReport))
        .ifPresent(conflict -> kernels.abort(conflict.error()));
    remoteCalls
        .due(waiting, nowMillis, this::ownReport)
        .filter(notice -> ranks().size() < rank.nRanks())
        .ifPresent(notice -> connections.tell(notice.encode()));
  }

  private RankReport ownReport() {
    return log.report(rank.operations());
  }

  /** This communicator's ranks; other processes are read only where some are not in this one. */
  private List<RankReport> ranks() {
    List<RankReport> here = ours(FlightReader.ofThisProcess(rank.operations()));
    return here.size() == rank.nRanks() ? here : ours(reports());
  }

  private List<RankReport> ours(List<RankReport> reports) {
    return reports.stream().filter(report -> report.communicator() == rank.communicator()).toList();
  }

  /** All that this process can read. */
  private List<RankReport> reports() {
    List<RankReport> reports = FlightReader.ofThisHost();
    return reports.isEmpty() ? FlightReader.ofThisProcess(rank.operations()) : reports;
  }

  /** Ends what waits for ever because ranks use communicators in different order. */
  private void compare(long nowMillis) {
    if (nowMillis - comparedMillis >= COMPARE_MILLIS
        && kernels.failure() == null
        && (kernels.waitsFor() >= 0 || log.hasFront())) {
      comparedMillis = nowMillis;
      OrderConflict orders = new OrderConflict(reports());
      List<OrderNotice> waits = orders.waits(rank.communicator(), rank.rank());
      waits.forEach(wait -> connections.tell(wait.encode()));
      orders
          .of(rank.communicator(), rank.rank())
          .or(() -> OrderConflict.between(waits, HEARD))
          .ifPresent(kernels::abort);
    }
  }
}
