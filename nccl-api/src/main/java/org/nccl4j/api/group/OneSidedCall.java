package org.nccl4j.api.group;

import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.Leases;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.operation.Operation;

/**
 * A put, a signal or a wait that has been checked: one that is launched now, or one that the end of
 * its group launches. Used again for later calls. Owned by the thread that calls.
 */
final class OneSidedCall {
  private final Kind kind = new Kind();
  private Owner owner;
  private Operation operation;
  private long count;
  private DataType type;

  /** Null where there are no data. */
  private DeviceMemory source;

  private DeviceStream stream;

  /** The calls of the same rank. */
  interface Owner {
    /** The rank and its communicator, for messages. */
    String who();

    /** See {@link OneSidedCall#check}. */
    void checkAgain(OneSidedCall call);

    void launch(OneSidedCall call);
  }

  /** All of a call but its data and its stream: calls of one kind have one plan. */
  static final class Kind {
    private LsaTeam team;
    private int peer;

    /** Null where none is written into. */
    private RegisteredWindow window;

    private long offset;
    private long bytes;

    /** Null for a put and a signal. */
    private AwaitedSignals awaited;

    @HotPath
    @SuppressWarnings("ReferenceEquality") // windows and known waits are one object each
    boolean isSame(Kind other) {
      return other != null
          && peer == other.peer
          && bytes == other.bytes
          && offset == other.offset
          && window == other.window
          && awaited == other.awaited;
    }

    @HotPath
    long hash() {
      long hash = awaited == null ? peer : awaited.hash();
      hash = hash * 31 + (window == null ? 0 : window.number());
      return (hash * 31 + offset) * 31 + bytes;
    }

    Kind copy() {
      Kind copy = new Kind();
      copy.team = team;
      copy.peer = peer;
      copy.window = window;
      copy.offset = offset;
      copy.bytes = bytes;
      copy.awaited = awaited;
      return copy;
    }

    OneSidedWork work() {
      if (awaited != null) {
        return awaited.work();
      }
      return team.has(peer)
          ? new OneSidedWork.Put(
              peer - team.first(), window == null ? null : window.view(), offset, bytes)
          : new OneSidedWork.RemotePut(peer, window == null ? 0 : window.number(), offset, bytes);
    }
  }

  /**
   * Begins with a signal; {@link #writes} and {@link #awaits} make it another call.
   *
   * @param peer the first, of several
   */
  @HotPath
  OneSidedCall set(Owner of, Operation newOperation, int peer, LsaTeam team, DeviceStream into) {
    owner = of;
    operation = newOperation;
    stream = into;
    count = 0;
    type = DataType.INT8;
    source = null;
    kind.team = team;
    kind.peer = peer;
    kind.window = null;
    kind.offset = 0;
    kind.bytes = 0;
    kind.awaited = null;
    return this;
  }

  /** Makes it a put. */
  @HotPath
  OneSidedCall writes(
      DeviceMemory data, long elements, DataType ofType, RegisteredWindow window, long offset) {
    count = elements;
    type = ofType;
    source = elements == 0 ? null : data;
    kind.window = window;
    kind.offset = offset;
    kind.bytes = elements * ofType.bytes();
    return this;
  }

  /** Makes it a wait. */
  @HotPath
  OneSidedCall awaits(AwaitedSignals signals) {
    kind.awaited = signals;
    return this;
  }

  /** True until it is cleared. */
  @HotPath
  boolean isSet() {
    return owner != null;
  }

  @HotPath
  Kind kind() {
    return kind;
  }

  @HotPath
  Operation operation() {
    return operation;
  }

  @HotPath
  int peer() {
    return kind.peer;
  }

  /** Null where none is written into. */
  @HotPath
  RegisteredWindow window() {
    return kind.window;
  }

  /** Null for a put and a signal. */
  @HotPath
  AwaitedSignals awaited() {
    return kind.awaited;
  }

  @HotPath
  long count() {
    return count;
  }

  @HotPath
  DataType type() {
    return type;
  }

  /** The data; null where there are none. */
  @HotPath
  DeviceMemory source() {
    return source;
  }

  /** The stream that it goes into. */
  @HotPath
  DeviceStream stream() {
    return stream;
  }

  /** The operation and the rank, for messages. */
  String name() {
    return operation.key() + " of " + owner.who();
  }

  /**
   * Looks at what may have changed since the call.
   *
   * @throws org.nccl4j.device.NcclException if it cannot be launched
   */
  @HotPath
  void check() {
    owner.checkAgain(this);
  }

  /** Launches it. */
  @HotPath
  void launch() {
    owner.launch(this);
  }

  /** Ends the leases of its source and its stream. */
  @HotPath
  void end() {
    Leases.end(source, null);
    Leases.of(stream).end();
  }

  /** Keeps nothing of the call. */
  @HotPath
  void clear() {
    owner = null;
    source = null;
    stream = null;
    kind.window = null;
    kind.awaited = null;
    kind.team = null;
  }
}
