package org.nccl4j.api.init.probe;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.Patience;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Measures on one rank's own engine, in its own stream and buffers, which are a window meanwhile if
 * the ranks reach each other's memory. Operations are launched behind a closed gate and timed by
 * events, so that the time of the launching thread and of interpreted code is not included. An
 * operation before the first event synchronizes the ranks.
 */
final class EngineBench implements ProbeBench {
  /** Longest wait for operations that have been launched. */
  private static final Duration PATIENCE = Duration.ofSeconds(5);

  private static final int ROUNDS = 2;
  private static final int CALLS = 12;
  private static final int LARGE_CALLS = 3;
  private static final long LARGE_BYTES = 4 << 20;

  /** An operation of all ranks; rings are there without connections of all to all. */
  private static final List<ProbeCell> MEETINGS =
      Stream.of(Algorithm.ONE_SHOT, Algorithm.RING)
          .map(by -> new ProbeCell(Operation.ALL_REDUCE, by, Protocol.LL, 1 << 10))
          .toList();

  private final Device device;
  private final Planner planner;
  private final Launcher launcher;
  private final WindowRegistry windows;
  private final boolean reach;

  /** Releases of the resources, the last made first. */
  private final Deque<Runnable> made = new ArrayDeque<>();

  private DeviceMemory memory;
  private DeviceMemory send;
  private DeviceMemory recv;
  private DeviceStream stream;
  private DeviceEvent begin;
  private DeviceEvent end;
  private KernelDevice.StreamGate gate;
  private RegisteredWindow window;
  private KernelPlan meeting;
  private KernelPlan plan;

  /**
   * A bench on a device.
   *
   * @param reach whether all ranks can have windows; the same on all of them
   */
  EngineBench(
      Device device, Planner planner, Launcher launcher, WindowRegistry windows, boolean reach) {
    this.device = device;
    this.planner = planner;
    this.launcher = launcher;
    this.windows = windows;
    this.reach = reach;
  }

  @Override
  public void allocate() {
    memory = device.memAlloc(2 * ProbePlan.MOST_BYTES);
    made.push(memory::close);
    send = memory.slice(0, ProbePlan.MOST_BYTES);
    recv = memory.slice(ProbePlan.MOST_BYTES, ProbePlan.MOST_BYTES);
    stream = device.createStream();
    made.push(stream::close);
    begin = device.createEvent();
    made.push(begin::close);
    end = device.createEvent();
    made.push(end::close);
    gate = ((KernelDevice) device).gate();
    made.push(gate::close);
  }

  @Override
  public void register() {
    if (reach) {
      window = windows.register(memory);
    }
  }

  /** Sends and receives between all pairs compete with algorithms between windows alone. */
  @Override
  public boolean has(ProbeCell cell) {
    boolean ofWindows =
        cell.algorithm().isBetweenWindows() || cell.algorithm() == Algorithm.PAIRWISE;
    return (reach || !ofWindows)
        && planner.has(cell.operation(), cell.algorithm(), cell.protocol(), cell.bytes());
  }

  @Override
  public void prepare(ProbeCell cell) {
    launcher.enter();
    try {
      if (meeting == null) {
        meeting = planned(MEETINGS.stream().filter(this::has).findFirst().orElseThrow());
        made.push(meeting::discard);
      }
      discard();
      plan = planned(cell);
    } finally {
      launcher.leave();
    }
  }

  private KernelPlan planned(ProbeCell cell) {
    return planner.planBy(cell.choice(), cell.shape(), send, recv, cell.count(windows.nRanks()));
  }

  private void discard() {
    if (plan != null) {
      plan.discard();
      plan = null;
    }
  }

  @Override
  public double measure(ProbeCell cell) {
    launch(plan, 1); // loads the kernel, which behind a shut gate could wait for it
    stream.synchronize(PATIENCE);
    int calls = cell.bytes() < LARGE_BYTES ? CALLS : LARGE_CALLS;
    double least = Double.POSITIVE_INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
      gate.shut(stream);
      try {
        launch(meeting, 1);
        stream.record(begin);
        launch(plan, calls);
        stream.record(end);
      } finally {
        gate.open();
      }
      stream.synchronize(PATIENCE);
      least = Math.min(least, end.microsecondsSince(begin) / calls);
    }
    return least;
  }

  private void launch(KernelPlan launched, int times) {
    launcher.enter();
    try {
      for (int time = 0; time < times; time++) {
        launcher.launchCollective(launched, send, recv, stream, Launcher.UNNAMED, 0);
      }
    } finally {
      launcher.leave();
    }
  }

  @Override
  public boolean isIdle() {
    return stream == null || Patience.until(stream::isIdle, PATIENCE);
  }

  @Override
  public NcclException stuck() {
    return new TimeoutException(
        "an operation of the probe still waits for another rank after %s"
            .formatted(Patience.text(PATIENCE)),
        "look for the rank that failed; NCCL4J_PROBE=0 disables the probe");
  }

  @Override
  public void deregister() {
    if (reach) {
      windows.deregister(window, used -> false);
    }
  }

  @Override
  public void free() {
    CloseAll all = new CloseAll();
    all.take(this::discard);
    while (!made.isEmpty()) {
      all.take(made.pop());
    }
    all.end();
  }
}
