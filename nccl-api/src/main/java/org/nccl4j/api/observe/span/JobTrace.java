package org.nccl4j.api.observe.span;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.BootstrapId;
import org.nccl4j.api.bootstrap.BootstrapOptions;
import org.nccl4j.api.bootstrap.BootstrapRoot;
import org.nccl4j.api.bootstrap.JobObserver;
import org.nccl4j.api.bootstrap.root.RankState;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * A recording of the operations of a job on all its hosts, which its bootstrap's roots ask of all
 * ranks. A rank records from the first question that it gets to the last one, up to
 * NCCL4J_TRACE_RATE operations a second; also if this process ends without a word, it records no
 * more after 15 s. For one thread.
 */
public final class JobTrace {
  /** Operations of all ranks, after which a recording ends. */
  public static final int MOST_SPANS = 500_000;

  /** For the first answer of all. */
  private static final Duration FIRST = Duration.ofSeconds(10);

  /** For any other answer: a root that is still must be given up before its ranks' lease ends. */
  private static final Duration FURTHER = Duration.ofSeconds(3);

  /** Questions at the end, for what ranks have not sent: more than a rank's log fills. */
  private static final int MOST_LAST_QUESTIONS = 20;

  /**
   * Questions in a row without an answer, 3 s each, after which a root is asked no more. If it
   * answers the last of them, its ranks still record.
   */
  private static final int MOST_FAILURES = 3;

  private final BootstrapOptions options;
  private final int mostSpans;
  private final long recording = ThreadLocalRandom.current().nextLong();

  private final List<BootstrapId> roots;

  /** Questions in a row that a root has not answered. */
  private final Map<BootstrapId, Integer> failures = new IdentityHashMap<>();

  private final Map<Integer, RankLog> ranks = new TreeMap<>();

  /** Addresses and reasons. */
  private final Map<String, String> unreached = new LinkedHashMap<>();

  private int nRanks;
  private int nSpans;

  /** True if another last question may bring more. */
  private boolean isLeft;

  /**
   * An operation and where it was.
   *
   * @param process of the rank
   */
  public record Recorded(ProcessReport process, OperationSpan span) {}

  /** The answers of a rank. */
  private static final class RankLog {
    private final ProcessReport process;

    /**
     * Operations by how many the rank had sent before: the answers of a rank that is connected to
     * two roots may come in another order.
     */
    private final TreeMap<Long, List<OperationSpan>> spans = new TreeMap<>();

    /** Operations of messages that have come, or that came before those. */
    private long sent;

    /** The same before the question that is being asked. */
    private long sentSoFar;

    /** Operations of the rank's recordings that have ended early. */
    private long sentBefore;

    private long leftOutBefore;

    private long received;
    private long leftOut;
    private boolean hasAnswered;

    /** True once an answer has said so. */
    private boolean records;

    /** True once it has sent all that it has recorded, after a last question. */
    private boolean isOver;

    /** True if an answer to the question that is being asked says that it does not record. */
    private boolean isRefused;

    /** True once its recording has ended, and another has begun. */
    private boolean isInterrupted;

    /** True once its recording has ended before it sent all. */
    private boolean endedEarly;

    private boolean isSilent;
    private String problem = "";

    RankLog(ProcessReport process) {
      this.process = process;
    }

    /**
     * Adds a message. One with less sent before than came already is of another recording, unless
     * it is empty: a rank that has closed its communicators sends such.
     */
    void add(SpanMessage message) {
      records = true;
      boolean isEmpty = message.spans().isEmpty();
      if (!isEmpty && sentBefore + message.sentBefore() < sentSoFar) {
        isInterrupted = true;
        sentBefore = sentSoFar;
        leftOutBefore = leftOut;
      }
      long first = sentBefore + message.sentBefore();
      if (!isEmpty) {
        spans.put(first, message.spans());
      }
      received += message.spans().size();
      sent = Math.max(sent, first + message.spans().size());
      leftOut = Math.max(leftOut, leftOutBefore + message.leftOut());
    }

    /** The operations that did not come, as a sentence without subject; empty if all did. */
    String lost() {
      long lost = sent - received + leftOut;
      return lost == 0
          ? ""
          : "lost %d operations: its answers came too late, or it had more than it keeps"
              .formatted(lost);
    }
  }

  private JobTrace(List<BootstrapId> roots, BootstrapOptions options, int mostSpans) {
    this.roots = new ArrayList<>(roots);
    this.options = options;
    this.mostSpans = mostSpans;
  }

  /**
   * Begins to record.
   *
   * @param ids a unique id's text for each root, or the NCCL_COMM_ID
   * @param settings secret and certificates, as the ranks have them
   * @throws org.nccl4j.device.InvalidArgumentException if an id is invalid
   * @throws org.nccl4j.device.SystemErrorException if no root can be reached
   * @throws InvalidUsageException if not all ranks have come, or the job has another version
   */
  public static JobTrace begin(List<String> ids, Settings settings) {
    BootstrapOptions options = BootstrapOptions.from(settings);
    return begin(
        ids.stream().map(id -> BootstrapRoot.ofJob(id, options)).toList(), options, MOST_SPANS);
  }

  /**
   * Begins to record, as {@link #begin(List, Settings)}.
   *
   * @param roots ids by which the ranks have joined
   * @param mostSpans operations after which the recording ends
   */
  public static JobTrace begin(List<BootstrapId> roots, BootstrapOptions options, int mostSpans) {
    JobTrace trace = new JobTrace(roots, options, mostSpans);
    trace.ask(true);
    return trace;
  }

  /**
   * Gets what ranks have recorded so far; to be called a few times a second. A rank keeps some
   * seconds.
   *
   * @return false if the recording should end: no root has answered several questions, or there are
   *     {@link #MOST_SPANS} operations
   */
  public boolean look() {
    ask(true);
    return !roots.isEmpty() && !isFull();
  }

  /** Ends the recording, and gets the rest. */
  public void end() {
    int asked = 0;
    do {
      ask(false);
    } while (isLeft && !isFull() && ++asked < MOST_LAST_QUESTIONS);
  }

  /** True if a recording ended since it had too many operations. */
  public boolean isFull() {
    return nSpans >= mostSpans;
  }

  private void ask(boolean goesOn) {
    if (roots.isEmpty()) {
      isLeft = false;
      return;
    }
    boolean isFirst = nRanks == 0;
    for (RankLog log : ranks.values()) {
      log.sentSoFar = log.sent;
      log.isRefused = false;
    }
    List<JobObserver.Answer> answers =
        JobObserver.askAll(
            roots,
            new SpanQuestion(recording, goesOn).encode(),
            options,
            isFirst ? FIRST : FURTHER,
            FURTHER);
    List<JobObserver.Answer> failed =
        answers.stream().filter(each -> each.failure() != null).toList();
    if (isFirst && failed.size() == answers.size()) {
      throw failed.get(0).failure().again();
    }
    for (JobObserver.Answer each : failed) {
      unreached.put(each.root().where(), each.failure().problem());
      if (failures.merge(each.root(), 1, Integer::sum) == MOST_FAILURES) {
        roots.removeIf(root -> root == each.root());
      }
    }
    isLeft = failed.stream().anyMatch(each -> failures.get(each.root()) < MOST_FAILURES);
    Set<Integer> answered = new HashSet<>();
    Set<Integer> silent = new HashSet<>();
    for (JobObserver.Answer each : answers) {
      if (each.failure() == null) {
        failures.remove(each.root());
        unreached.remove(each.root().where()); // its ranks have kept their operations
        take(each, goesOn, answered, silent);
      }
    }
    silent.removeAll(answered); // a rank between two roots' blocks is connected to both
    ranks.forEach(
        (rank, log) -> {
          log.isSilent = silent.contains(rank);
          log.endedEarly |= log.isRefused && log.records && !log.isOver;
        });
  }

  private void take(
      JobObserver.Answer answer, boolean goesOn, Set<Integer> answered, Set<Integer> silent) {
    JobObserver.States states = answer.states();
    if (!states.formed()) {
      throw new InvalidUsageException(
          ErrorId.USAGE,
          "the job at %s cannot be recorded: not all of its ranks have come"
              .formatted(answer.root().where()),
          "record it once all ranks have created the communicator");
    }
    nRanks = Math.max(nRanks, states.nRanks());
    for (RankState state : states.ranks()) {
      RankLog log =
          ranks.computeIfAbsent(
              state.rank(), rank -> new RankLog(new ProcessReport(state.host(), state.pid(), "")));
      if (state.answered()) {
        answered.add(state.rank());
        add(state, log, goesOn);
      } else {
        silent.add(state.rank());
      }
    }
  }

  private void add(RankState state, RankLog log, boolean goesOn) {
    log.hasAnswered = true;
    SpanMessage message;
    try {
      message = SpanMessage.decode(state.state());
    } catch (IOException e) {
      log.problem = "sends no operations: it has another version of nccl4j";
      return;
    }
    if (!message.records()) {
      log.isRefused = true;
      if (goesOn && !log.records) {
        log.problem = "is recorded by %d others; end one of them".formatted(SpanLogs.MOST);
      }
      return;
    }
    log.add(message);
    log.isOver |= !goesOn && message.left() == 0;
    nSpans += message.spans().size();
    isLeft |= message.left() > 0;
  }

  /** The operations of all ranks, rank by rank, in the order in which they ended. */
  public List<Recorded> spans() {
    List<Recorded> all = new ArrayList<>();
    for (RankLog log : ranks.values()) {
      log.spans
          .values()
          .forEach(part -> part.forEach(span -> all.add(new Recorded(log.process, span))));
    }
    return all;
  }

  /** Sentences on what the recording lacks: roots, ranks, and operations of ranks. */
  public List<String> missing() {
    List<String> missing = new ArrayList<>();
    unreached.forEach((root, reason) -> missing.add(reason));
    List<Integer> gone =
        IntStream.range(0, nRanks).filter(rank -> !ranks.containsKey(rank)).boxed().toList();
    if (!gone.isEmpty()) {
      missing.add("ranks that have left, or whose root gives no answer: " + numbers(gone));
    }
    ranks.forEach(
        (rank, log) -> {
          String problem = problem(log);
          if (!problem.isEmpty()) {
            missing.add("rank %d (%s) %s".formatted(rank, log.process, problem));
          }
        });
    return missing;
  }

  private static String problem(RankLog log) {
    if (!log.problem.isEmpty()) {
      return log.problem;
    }
    if (!log.hasAnswered) {
      return "gave no answer";
    }
    if (!log.records) {
      return "gave no answer before the end: its operations are missing";
    }
    if (log.isSilent) {
      return "gave no answer at the end: its last operations are missing";
    }
    if (log.endedEarly) {
      return "ended its recording early, or its last answer came too late: its last operations are"
          + " missing";
    }
    if (log.isInterrupted) {
      String gap =
          "was suspended, or not asked for %d s: operations until the next question are missing"
              .formatted(TimeUnit.NANOSECONDS.toSeconds(SpanLogs.LEASE_NANOS));
      return log.lost().isEmpty() ? gap : gap + "; it " + log.lost();
    }
    return log.lost();
  }

  private static String numbers(List<Integer> ranks) {
    int shown = 16;
    String first = String.join(", ", ranks.stream().limit(shown).map(String::valueOf).toList());
    return ranks.size() > shown ? "%s and %d more".formatted(first, ranks.size() - shown) : first;
  }
}
