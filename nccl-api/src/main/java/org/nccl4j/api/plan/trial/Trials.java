package org.nccl4j.api.plan.trial;

import java.io.IOException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.os.ThisProcess;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Launches one rank's collectives, now and then by another algorithm than the chosen one, and keeps
 * the times of both. Used between the launcher's enter and leave, like the planner.
 *
 * <p>Only real calls are used: nothing is launched that the program has not called. A call that is
 * captured into a graph is neither measured nor tried, since the graph would repeat the trial.
 */
public final class Trials {
  /** Shapes and sizes that are measured: the first that are called. */
  private static final int MOST_SHAPES = 64;

  private static final int PLACE_BITS = 8;

  /** More than there are shapes, so that one is found soon. */
  private static final int PLACES = 1 << PLACE_BITS;

  /** Measured calls that may be under way; those beyond are not measured. */
  private static final int MOST_UNDER_WAY = 16;

  private static final System.Logger LOG = DebugLog.of("TUNING");

  private static final long LEAST_PREDICTED_BYTES = 128;
  private static final long MOST_PREDICTED_BYTES = 4L << 30;

  /** A shape that is called, with its schedule. */
  private static final class Shape {
    private final long shape;
    private final long count;
    private final int number;
    private final TrialSchedule schedule;
    private final TrialBudget budget;
    private long calls;

    /** Of the last measured call, or of the schedule. */
    private Planner.Basis basis;

    /** True if calls on it are like those of the schedule. */
    private boolean fits = true;

    Shape(long shape, long count, int number, TrialSchedule schedule, Planner.Basis basis) {
      this.shape = shape;
      this.count = count;
      this.number = number;
      this.schedule = schedule;
      this.budget = new TrialBudget(schedule);
      this.basis = basis;
    }
  }

  /** A measured call that may not have ended. */
  private record UnderWay(Shape shape, long call, int index, Events events) {}

  private record Events(DeviceEvent begin, DeviceEvent end) {}

  private final Device device;
  private final Rank of;
  private final int rank;
  private final int nRanks;
  private final String folder;
  private final InfoLog info;
  private final TrialLog log;

  /** Of ranks on several machines; null on one. */
  private final TrialVotes votes;

  /**
   * Of ranks on one machine; null before the first shape, and where they cannot agree, which then
   * try nothing.
   */
  private TrialAgreement agreement;

  /** Null without an agreement. */
  private MissingRanks missing;

  private Planner planner;
  private Launcher launcher;

  /** By hash of shape and count, the next place where one is taken. */
  private final Shape[] shapes = new Shape[PLACES];

  private int nShapes;

  /** True once it is told that ranks do not answer. */
  private boolean silenceTold;

  private final Set<Operation> predicted = EnumSet.noneOf(Operation.class);
  private final Deque<UnderWay> underWay = new ArrayDeque<>();
  private final Deque<Events> free = new ArrayDeque<>();
  private int nEvents;

  /**
   * A rank of a communicator.
   *
   * @param communicator its number, the same on all its ranks
   * @param inTables the ranks in a table: see {@link CommunicatorProfile#inTables}
   * @param model of the ranks' devices
   * @param patience longest wait for other ranks
   */
  public record Rank(
      long communicator, int rank, int nRanks, String inTables, String model, Duration patience) {}

  /**
   * The trials of a rank.
   *
   * @param folder in which the rank's file is made, once there is something to keep
   * @param channel to the ranks of other machines; null if all are on one, and so can map a file
   * @param info where the file is told of
   */
  public Trials(Device device, Rank rank, String folder, TrialChannel channel, InfoLog info) {
    this.device = device;
    this.of = rank;
    this.folder = folder;
    this.info = info;
    this.rank = rank.rank;
    this.nRanks = rank.nRanks;
    this.votes =
        channel == null
            ? null
            : new TrialVotes(
                new TrialVotes.Member(rank.communicator, rank.rank, rank.nRanks, rank.patience),
                MOST_SHAPES,
                channel,
                System::nanoTime);
    this.log =
        new TrialLog(
            folder,
            TrialFile.name(rank.communicator, rank.rank, ThisProcess.pid()),
            TrialFile.header(rank.communicator, rank.rank, rank.inTables, rank.model),
            info);
  }

  /** Sets what plans and launches, before the first launch. */
  public void attach(Planner newPlanner, Launcher newLauncher) {
    planner = newPlanner;
    launcher = newLauncher;
  }

  /**
   * The same after a suspension.
   *
   * @param others of the same rank, which have tried nothing: over their channel they go on
   */
  public void attach(Planner newPlanner, Launcher newLauncher, Trials others) {
    attach(newPlanner, newLauncher);
    if (votes != null && others != null) {
      votes.over(others.votes.channel());
    }
  }

  /** Launches a collective as {@link Launcher#launchCollective}, by its plan or by another one. */
  @HotPath
  public void launch(
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream,
      long shape,
      long count) {
    if (!underWay.isEmpty()) {
      collect(); // the other ranks' next trials wait for the times of this one
    }
    Shape known = find(shape, count);
    Shape called = known == null ? made(send, recv, shape, count) : known;
    int index = called == null ? TrialSchedule.UNMEASURED : called.schedule.of(called.calls);
    if (index == TrialSchedule.UNMEASURED || stream.isCapturing() || !isDue(called, index)) {
      launcher.launchCollective(plan, send, recv, stream, shape, count);
    } else {
      measure(called, index, plan, send, recv, stream);
    }
    // A call that is refused here is none on the other ranks: it counts once it is launched.
    if (called != null) {
      called.calls++;
      if (known == null) {
        keep(called);
      }
    }
  }

  /** True if a call is to be measured: the chosen algorithm always, another as all ranks agree. */
  private boolean isDue(Shape called, int index) {
    if (missing != null) {
      tellMissing(missing.during());
    }
    if (called.budget.isOver()) {
      return false;
    }
    int round = called.schedule.round(called.calls);
    if (index == TrialSchedule.CHOSEN) {
      if (votes != null) {
        votes.propose(called.number, round, called.schedule, called.budget);
        tellSilent();
      }
      return round < TrialSchedule.ROUNDS || votes != null && votes.isMade(called.number, round);
    }
    if (votes != null) {
      return votes.decide(called.number, round, launcher::checkAccepts);
    }
    if (agreement == null || round >= TrialSchedule.ROUNDS) {
      return false;
    }
    double spent = agreement.spent(called.number, called.budget.tried());
    boolean wanted = called.budget.allows(index, spent, called.calls + 1);
    boolean due = agreement.decide(called.number, round, wanted);
    if (wanted && !due) {
      missing.prevented();
    }
    return due;
  }

  private void tellSilent() {
    if (silenceTold || votes.silent().isEmpty()) {
      return;
    }
    silenceTold = true;
    LOG.log(
        System.Logger.Level.WARNING,
        "{0} tries no more algorithms: ranks {1} have not answered before the calls that were to be"
            + " tried; look at the network of the bootstrap (NCCL_SOCKET_IFNAME)",
        info.who(),
        votes.silent());
  }

  private void tellMissing(List<Integer> ranks) {
    if (ranks.isEmpty()) {
      return;
    }
    LOG.log(
        System.Logger.Level.WARNING,
        "{0} tries no algorithms: ranks {1} of this machine have not joined in folder {2}: they have"
            + " another folder of this name, such as in containers with a file system each, or"
            + " could not write there (their log says so); name a folder in NCCL4J_TRIALS that all"
            + " ranks of the machine share and may write",
        info.who(),
        ranks,
        Path.of(folder).toAbsolutePath());
    log.add(TrialFile.missing(ranks));
    log.write();
  }

  /**
   * Launches a call between two events.
   *
   * @param index of its algorithm in the schedule
   * @param plan of the chosen algorithm
   */
  private void measure(
      Shape called,
      int index,
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream) {
    List<AlgorithmChoice> choices = called.schedule.choices();
    boolean fits = fits(called, send, recv);
    KernelPlan launched =
        fits && index != TrialSchedule.CHOSEN
            ? planner.planBy(choices.get(index), called.shape, send, recv, called.count)
            : plan;
    Events events = null;
    boolean measured = false;
    try {
      events = fits ? events() : null;
      if (events != null) {
        stream.record(events.begin);
      }
      launcher.launchCollective(launched, send, recv, stream, called.shape, called.count);
      if (launched != plan) {
        called.budget.tried(index, events != null);
        tell(called);
      }
      if (events != null) {
        stream.record(events.end);
        underWay.add(new UnderWay(called, called.calls, index, events));
        measured = true;
      }
    } finally {
      if (events != null && !measured) {
        free.add(events);
      }
      if (launched != plan) {
        launched.discard();
      }
    }
  }

  @HotPath
  private Shape find(long shape, long count) {
    for (int place = place(shape, count); ; place = (place + 1) % PLACES) {
      Shape found = shapes[place];
      if (found == null || found.shape == shape && found.count == count) {
        return found;
      }
    }
  }

  @HotPath
  private static int place(long shape, long count) {
    return CallShape.place(CallShape.hash(shape, count), PLACE_BITS);
  }

  /** A new shape; null where there are enough, or where nothing can be tried. */
  private Shape made(DeviceMemory send, DeviceMemory recv, long shape, long count) {
    if (nShapes == MOST_SHAPES || !planner.hasWays(CallShape.operation(shape))) {
      return null;
    }
    Planner.Basis basis = planner.basis(shape, send, recv, count);
    TrialSchedule schedule = TrialSchedule.of(planner.choices(shape, count, basis));
    return new Shape(shape, count, nShapes, schedule, basis);
  }

  /** True if what is measured on these buffers may be taken for the shape's. */
  private boolean fits(Shape called, DeviceMemory send, DeviceMemory recv) {
    Planner.Basis now = planner.basis(called.shape, send, recv, called.count);
    if (!now.equals(called.basis)) {
      called.basis = now;
      called.fits = called.schedule.fits(planner.choices(called.shape, called.count, now));
    }
    return called.fits;
  }

  private void keep(Shape made) {
    int place = place(made.shape, made.count);
    while (shapes[place] != null) {
      place = (place + 1) % PLACES;
    }
    shapes[place] = made;
    nShapes++;
    if (nShapes == 1 && votes == null) {
      join();
    }
    tell(made);
    Operation operation = CallShape.operation(made.shape);
    if (rank == 0 && predicted.add(operation)) {
      predictions(operation);
    }
  }

  private void join() {
    try {
      agreement = TrialAgreement.join(Path.of(folder), of.communicator, rank, nRanks, MOST_SHAPES);
      missing = new MissingRanks(agreement, System::nanoTime);
    } catch (IOException | InvalidPathException e) {
      TrialFolder.refused(folder, info.who(), "tries no algorithms", e);
    }
  }

  /** Keeps the predicted times of all ways of an operation. */
  private void predictions(Operation operation) {
    for (Algorithm algorithm : Algorithm.values()) {
      for (Protocol protocol : Protocol.values()) {
        TreeMap<Long, Double> points = new TreeMap<>();
        for (long bytes = LEAST_PREDICTED_BYTES; bytes <= MOST_PREDICTED_BYTES; bytes *= 4) {
          if (planner.has(operation, algorithm, protocol, bytes)) {
            points.put(bytes, planner.predict(operation, algorithm, protocol, bytes));
          }
        }
        points.values().removeIf(time -> time >= CostModel.ONLY_WHERE_ASKED);
        if (!points.isEmpty()) {
          log.add(TrialFile.line(new TrialTimes.Way(operation, algorithm, protocol), points));
        }
      }
    }
  }

  /** Events of a call; null where enough calls are under way. */
  private Events events() {
    if (free.isEmpty() && nEvents < MOST_UNDER_WAY) {
      nEvents++;
      return new Events(device.createEvent(), device.createEvent());
    }
    return free.poll();
  }

  /** Keeps the times of measured calls that have ended; starts none, which would cost time. */
  private void collect() {
    while (!underWay.isEmpty() && underWay.peek().events.end.isKnownComplete()) {
      UnderWay ended = underWay.poll();
      keep(ended, ended.events.end.microsecondsSince(ended.events.begin));
      free.add(ended.events);
    }
  }

  private void keep(UnderWay ended, double microseconds) {
    Shape shape = ended.shape;
    Operation operation = CallShape.operation(shape.shape);
    AlgorithmChoice choice = shape.schedule.choices().get(ended.index);
    shape.budget.measured(ended.index, microseconds);
    tell(shape);
    log.add(
        TrialFile.line(
            new TrialTimes.Sample(
                shape.number,
                ended.call,
                ended.index == TrialSchedule.CHOSEN,
                new TrialTimes.Way(operation, choice.algorithm(), choice.protocol()),
                CallShape.bytes(shape.shape, shape.count) * operation.wholes(nRanks),
                choice.microseconds(),
                microseconds)));
  }

  /** Has the other ranks know what the trials of a shape have cost. */
  private void tell(Shape shape) {
    if (votes != null) {
      votes.tell(shape.number, shape.budget.spent(), shape.budget.known(), shape.budget.tried());
    } else if (agreement != null) {
      agreement.tell(shape.number, shape.budget.spent(), shape.budget.known());
    }
  }

  /** Writes what has been measured, and frees the events. The thread that closes the dispatcher. */
  public void close() {
    CloseAll all = new CloseAll();
    all.take(this::collect);
    if (missing != null) {
      all.take(() -> tellMissing(missing.after()));
    }
    all.take(log::write);
    if (agreement != null) {
      all.take(agreement::close);
    }
    if (votes != null) {
      all.take(votes::close);
    }
    underWay.forEach(each -> free.add(each.events));
    underWay.clear();
    free.forEach(
        each -> {
          all.take(each.begin::close);
          all.take(each.end::close);
        });
    free.clear();
    all.end();
  }
}
