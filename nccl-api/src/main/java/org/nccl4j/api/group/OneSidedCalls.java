package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.RemotePeers;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.operation.Operation;

/**
 * One rank's puts, signals and waits: checked, and launched at once, or at the end of the thread's
 * group. Any thread.
 */
public final class OneSidedCalls {
  private final String name;
  private final int rank;
  private final WindowRegistry windows;
  private final KernelCommunicator kernels;
  private final Launcher launcher;

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
  }

  /** Writes into a rank's window and signals it. */
  public void put(
      DeviceMemory source,
      long count,
      DataType type,
      int peer,
      RegisteredWindow window,
      long offset,
      DeviceStream stream) {
    try {
      launchPut(source, count, type, peer, window, offset, stream);
    } catch (RuntimeException e) {
      throw GroupScope.failed(e);
    }
  }

  private void launchPut(
      DeviceMemory source,
      long count,
      DataType type,
      int peer,
      RegisteredWindow window,
      long offset,
      DeviceStream stream) {
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
    new Call(
            Operation.PUT_SIGNAL,
            put(peer, source, window, offset, count * type.bytes()),
            new Shape(peer, count, type),
            count == 0 ? null : source,
            window,
            stream)
        .begin();
  }

  private void checkWindow(RegisteredWindow window) {
    if (!windows.has(window)) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          where(Operation.PUT_SIGNAL.method())
              + "the window is deregistered, or of another communicator",
          "pass a window that this communicator registered");
    }
  }

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

  private OneSidedWork put(
      int peer, DeviceMemory source, RegisteredWindow window, long offset, long bytes) {
    LsaTeam team = windows.team();
    return team.has(peer)
        ? new OneSidedWork.Put(
            peer - team.first(), source, window == null ? null : window.view(), offset, bytes)
        : new OneSidedWork.RemotePut(
            peer, source, window == null ? 0 : window.number(), offset, bytes);
  }

  /** Signals a rank. */
  public void signal(int peer, DeviceStream stream) {
    try {
      checkPeer("signal", peer);
      new Call(
              Operation.SIGNAL,
              put(peer, null, null, 0, 0),
              new Shape(peer, 0, DataType.INT8),
              null,
              null,
              stream)
          .begin();
    } catch (RuntimeException e) {
      throw GroupScope.failed(e);
    }
  }

  /** Waits for signals. */
  public void await(Map<Integer, Integer> signals, DeviceStream stream) {
    try {
      launchWait(signals, stream);
    } catch (RuntimeException e) {
      throw GroupScope.failed(e);
    }
  }

  private void launchWait(Map<Integer, Integer> signals, DeviceStream stream) {
    LsaTeam team = windows.team();
    List<OneSidedWork.Awaited> awaited = new ArrayList<>();
    List<OneSidedWork.RemoteAwaited> remote = new ArrayList<>();
    signals.forEach(
        (peer, count) -> {
          checkPeer("waitSignal", peer);
          if (count == null || count < 1) {
            throw wrong(
                "waitSignal", ErrorId.COUNT, count + " signals are awaited", "wait for 1 or more");
          }
          if (team.has(peer)) {
            awaited.add(new OneSidedWork.Awaited(peer - team.first(), count));
          } else {
            remote.add(new OneSidedWork.RemoteAwaited(peer, count));
          }
        });
    if (!signals.isEmpty()) {
      int first = signals.keySet().iterator().next();
      new Call(
              Operation.WAIT_SIGNAL,
              new OneSidedWork.Wait(List.copyOf(awaited), List.copyOf(remote)),
              new Shape(first, 0, DataType.INT8),
              null,
              null,
              stream)
          .begin();
    }
  }

  /**
   * Arguments of an operation, for the record.
   *
   * @param peer the first, of several
   */
  private record Shape(int peer, long count, DataType type) {}

  /** An operation that has been checked. */
  private final class Call implements OneSidedLaunch {
    private final Operation operation;
    private final OneSidedWork work;
    private final Shape shape;

    /** Null where there are no data. */
    private final DeviceMemory source;

    /** Null where none is written into. */
    private final RegisteredWindow window;

    private final DeviceStream stream;

    Call(
        Operation operation,
        OneSidedWork work,
        Shape shape,
        DeviceMemory source,
        RegisteredWindow window,
        DeviceStream stream) {
      this.operation = operation;
      this.work = work;
      this.shape = shape;
      this.source = source;
      this.window = window;
      this.stream = stream;
    }

    /** Launches it now, or keeps it for the end of the thread's group. */
    void begin() {
      if (stream == null || stream.device() != windows.device()) {
        throw wrong(
            operation.method(),
            ErrorId.STREAM,
            stream == null ? "stream is null" : "the stream belongs to " + stream.device().name(),
            "create it on " + windows.device().name());
      }
      windows.remote().reach(outside(work));
      GroupScope group = GroupScope.open();
      if (group != null) {
        launcher.checkAccepts();
        Task.lease(source, null, null, stream);
        group.keep(this);
        return;
      }
      Leases.begin(source, null); // the launch itself does not name it
      try {
        launch();
      } finally {
        Leases.end(source, null);
      }
    }

    @Override
    public DeviceStream stream() {
      return stream;
    }

    @Override
    public String name() {
      return operation.key() + " of " + who();
    }

    @Override
    public void check() {
      launcher.checkAccepts();
      if (window != null) {
        checkWindow(window);
      }
    }

    @Override
    public void launch() {
      launcher.enter();
      try {
        KernelPlan plan = kernels.prepare(work);
        launcher.launching(1);
        try {
          if (window != null) {
            window.use(kernels.nextLaunch());
          }
          launcher.launchOther(
              plan,
              null,
              null,
              stream,
              CallShape.of(operation, shape.type, RedOp.SUM, shape.peer),
              shape.count);
        } finally {
          plan.discard();
        }
        launcher.tell(operation.key(), shape.count, shape.type, shape.peer, stream);
      } finally {
        launcher.leave();
      }
    }

    @Override
    public void end() {
      Leases.end(source, null);
      Leases.of(stream).end();
    }
  }

  private String who() {
    return "rank %d of communicator %s".formatted(rank, name);
  }

  /**
   * The ranks outside the team that an operation is with. Of one that waits too: a GPU's stream
   * that waits already may keep the driver from having memory for a connection.
   */
  private static Set<Integer> outside(OneSidedWork work) {
    if (work instanceof OneSidedWork.RemotePut put) {
      return Set.of(put.rank());
    }
    return work instanceof OneSidedWork.Wait wait
        ? wait.remote().stream()
            .map(OneSidedWork.RemoteAwaited::rank)
            .collect(Collectors.toUnmodifiableSet())
        : Set.of();
  }

  private void checkPeer(String what, Integer peer) {
    if (peer == null || peer < 0 || peer >= windows.nRanks()) {
      throw wrong(
          what,
          ErrorId.RANK,
          "peer %s is not a rank of %d".formatted(peer, windows.nRanks()),
          "pass 0 to " + (windows.nRanks() - 1));
    }
    boolean remote = !windows.team().has(peer);
    if (remote) {
      windows.remote().obstacle().ifPresent(reason -> refuse(what, peer, reason));
    }
    if (remote ? !windows.remote().isOpen() : !windows.hasSpace()) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          where(what) + "no window was registered yet",
          "call registerWindow on all ranks first");
    }
  }

  private void refuse(String what, int peer, RemotePeers.Obstacle why) {
    throw wrong(
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
