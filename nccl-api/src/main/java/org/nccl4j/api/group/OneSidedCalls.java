package org.nccl4j.api.group;

import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.RemotePeers;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.support.PerThread;
import org.nccl4j.operation.Operation;

/**
 * One rank's puts, signals and waits: checked, and launched at once, or at the end of the thread's
 * group. Any thread.
 */
public final class OneSidedCalls implements OneSidedCall.Owner {
  private static final int KNOWN_WAITS = 16;

  /** The calls outside groups, but those that a thread makes while it launches another. */
  private static final PerThread<OneSidedCall> ALONE = new PerThread<>(OneSidedCall::new);

  private final String name;
  private final int rank;
  private final WindowRegistry windows;
  private final KernelCommunicator kernels;
  private final Launcher launcher;
  private final OneSidedPlans plans;

  /** The waits that were called last, which calls with the same signals share. Any thread. */
  private volatile AwaitedSignals[] waits = {};

  /**
   * The calls of one rank.
   *
   * @param name of the communicator
   */
  public OneSidedCalls(
      String name,
      int rank,
      WindowRegistry windows,
      KernelCommunicator kernels,
      Launcher launcher) {
    this.name = name;
    this.rank = rank;
    this.windows = windows;
    this.kernels = kernels;
    this.launcher = launcher;
    this.plans = new OneSidedPlans(kernels);
  }

  /** Writes into a rank's window and signals it. */
  @HotPath
  public void put(
      DeviceMemory source,
      long count,
      DataType type,
      int peer,
      RegisteredWindow window,
      long offset,
      DeviceStream stream) {
    try {
      checkPut(source, count, type, peer, window, offset);
      begin(next(Operation.PUT_SIGNAL, peer, stream).writes(source, count, type, window, offset));
    } catch (RuntimeException e) {
      throw GroupScope.failed(e);
    }
  }

  @HotPath
  private void checkPut(
      DeviceMemory source,
      long count,
      DataType type,
      int peer,
      RegisteredWindow window,
      long offset) {
    String what = "putSignal";
    checkPeer(what, peer);
    checkWindow(window);
    if (type == null || count < 0) {
      throw wrong(
          what,
          type == null ? ErrorId.TYPE : ErrorId.COUNT,
          type == null ? "type is null" : "count is " + count,
          "pass 0 or more");
    }
    long room = window.view().size();
    if (offset < 0 || offset > room || count > (room - offset) / type.bytes()) {
      throw wrong(
          what,
          ErrorId.COUNT,
          "%d elements of %s at byte %d do not fit a window of %d bytes"
              .formatted(count, type.label(), offset, room),
          "stay inside the peer's window");
    }
    checkSource(what, source, count, type);
  }

  @HotPath
  private void checkWindow(RegisteredWindow window) {
    if (!windows.has(window)) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          where(Operation.PUT_SIGNAL.method())
              + "the window is deregistered, or of another communicator",
          "pass a window that this communicator registered");
    }
  }

  @HotPath
  private void checkSource(String what, DeviceMemory source, long count, DataType type) {
    if (count == 0) {
      return;
    }
    if (source == null || source.device() != windows.device()) {
      throw wrong(
          what,
          ErrorId.BUFFER,
          source == null ? "the source is null" : "the source belongs to " + source.device().name(),
          "pass memory of " + windows.device().name());
    }
    if (!source.isOpen()) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          where(what) + "the source is closed",
          "close memory only after its last operation has been called");
    }
    if (count > source.size() / type.bytes()) {
      throw wrong(
          what,
          ErrorId.BUFFER,
          "the source has %d bytes, too few for %d elements of %s"
              .formatted(source.size(), count, type.label()),
          "pass a larger source or a smaller count");
    }
  }

  /** Signals a rank. */
  @HotPath
  public void signal(int peer, DeviceStream stream) {
    try {
      checkPeer("signal", peer);
      begin(next(Operation.SIGNAL, peer, stream));
    } catch (RuntimeException e) {
      throw GroupScope.failed(e);
    }
  }

  /** Waits for signals. */
  @HotPath
  public void await(Map<Integer, Integer> signals, DeviceStream stream) {
    try {
      if (!signals.isEmpty()) {
        AwaitedSignals awaited = awaited(signals);
        begin(next(Operation.WAIT_SIGNAL, awaited.peer(0), stream).awaits(awaited));
      }
    } catch (RuntimeException e) {
      throw GroupScope.failed(e);
    }
  }

  /** The signals of a wait, as an earlier one had them if it is known. */
  @HotPath
  private AwaitedSignals awaited(Map<Integer, Integer> signals) {
    AwaitedSignals[] known = waits;
    for (AwaitedSignals each : known) {
      if (each.isFor(signals)) {
        for (int peer = 0; peer < each.size(); peer++) {
          checkPeer("waitSignal", each.peer(peer));
        }
        return each;
      }
    }
    return newWait(signals);
  }

  private AwaitedSignals newWait(Map<Integer, Integer> signals) {
    signals.forEach(
        (peer, count) -> {
          if (peer == null) {
            throw wrongPeer("waitSignal", null);
          }
          checkPeer("waitSignal", peer);
          if (count == null || count < 1) {
            throw wrong(
                "waitSignal", ErrorId.COUNT, count + " signals are awaited", "wait for 1 or more");
          }
        });
    AwaitedSignals made = AwaitedSignals.of(signals, windows.team());
    synchronized (this) {
      AwaitedSignals[] more = Arrays.copyOf(waits, Math.min(KNOWN_WAITS, waits.length + 1));
      System.arraycopy(waits, 0, more, 1, more.length - 1);
      more[0] = made;
      waits = more;
    }
    return made;
  }

  /** The object of a call, for the caller's stream: the thread's own, or one of its group. */
  @HotPath
  private OneSidedCall next(Operation operation, int peer, DeviceStream stream) {
    if (stream == null || stream.device() != windows.device()) {
      throw wrong(
          operation.method(),
          ErrorId.STREAM,
          stream == null ? "stream is null" : "the stream belongs to " + stream.device().name(),
          "create it on " + windows.device().name());
    }
    GroupScope group = GroupScope.open();
    OneSidedCall call = group == null ? alone() : group.nextOneSided();
    return call.set(this, operation, peer, windows.team(), stream);
  }

  /**
   * The thread's own object, unless the thread is launching: for room in a host's stream it runs
   * host functions, which may call too.
   */
  @HotPath
  private static OneSidedCall alone() {
    OneSidedCall call = ALONE.get();
    return call.isSet() ? inside() : call;
  }

  private static OneSidedCall inside() {
    return new OneSidedCall();
  }

  /** Launches a call now, or keeps it for the end of the thread's group; else forgets it. */
  @HotPath
  private void begin(OneSidedCall call) {
    boolean isKept = false;
    try {
      reach(call);
      GroupScope group = GroupScope.open();
      if (group == null) {
        launchNow(call);
      } else {
        launcher.checkAccepts();
        group.keepOneSided();
        isKept = true;
      }
    } finally {
      if (!isKept) {
        call.clear();
      }
    }
  }

  @HotPath
  private void launchNow(OneSidedCall call) {
    DeviceMemory source = call.source();
    Leases.begin(source, null); // until the launch is in its stream
    try {
      launch(call);
    } finally {
      Leases.end(source, null);
    }
  }

  /**
   * Connects with the ranks outside the team that a call is with. Of one that waits too: a GPU's
   * stream that waits already may keep the driver from having memory for a connection.
   */
  @HotPath
  private void reach(OneSidedCall call) {
    AwaitedSignals awaited = call.awaited();
    if (awaited == null) {
      if (isToBeReached(call.peer())) {
        reach(call.peer());
      }
      return;
    }
    for (int each = 0; each < awaited.size(); each++) {
      if (isToBeReached(awaited.peer(each))) {
        windows.remote().reach(awaited.outside());
        return;
      }
    }
  }

  private void reach(int peer) {
    windows.remote().reach(Set.of(peer));
  }

  @HotPath
  private boolean isToBeReached(int peer) {
    return !windows.team().has(peer) && !windows.remote().isReached(peer);
  }

  /** Looks at what may have changed since a call of a group. */
  @Override
  @HotPath
  public void checkAgain(OneSidedCall call) {
    launcher.checkAccepts();
    if (call.window() != null) {
      checkWindow(call.window());
    }
  }

  @Override
  @HotPath
  public void launch(OneSidedCall call) {
    launcher.enter();
    try {
      KernelPlan plan = plans.of(call.kind());
      launcher.launching(1);
      if (call.window() != null) {
        call.window().use(kernels.nextLaunch());
      }
      launcher.launchOther(
          plan,
          call.source(),
          null,
          call.stream(),
          CallShape.of(call.operation(), call.type(), RedOp.SUM, call.peer()),
          call.count());
      launcher.tell(call.operation().key(), call.count(), call.type(), call.peer(), call.stream());
    } finally {
      launcher.leave();
    }
  }

  @Override
  public String who() {
    return "rank %d of communicator %s".formatted(rank, name);
  }

  @HotPath
  private void checkPeer(String what, int peer) {
    if (peer < 0 || peer >= windows.nRanks()) {
      throw wrongPeer(what, peer);
    }
    boolean remote = !windows.team().has(peer);
    if (remote) {
      Optional<RemotePeers.Obstacle> obstacle = windows.remote().obstacle();
      if (obstacle.isPresent()) {
        throw refused(what, peer, obstacle.get());
      }
    }
    if (remote ? !windows.remote().isOpen() : !windows.hasSpace()) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          where(what) + "no window was registered yet",
          "call registerWindow on all ranks first");
    }
  }

  private InvalidArgumentException wrongPeer(String what, Integer peer) {
    return wrong(
        what,
        ErrorId.RANK,
        "peer %s is not a rank of %d".formatted(peer, windows.nRanks()),
        windows.nRanks() == 1 ? "pass 0" : "pass 0 to " + (windows.nRanks() - 1));
  }

  private InvalidArgumentException refused(String what, int peer, RemotePeers.Obstacle why) {
    return wrong(
        what,
        ErrorId.RANK,
        "rank %d's memory is not accessible by loads and stores, and %s"
            .formatted(peer, why.problem()),
        why.remedy());
  }

  private InvalidArgumentException wrong(String what, ErrorId id, String problem, String remedy) {
    return new InvalidArgumentException(id, where(what) + problem, remedy);
  }

  private String where(String what) {
    return "%s on %s: ".formatted(what, who());
  }
}
