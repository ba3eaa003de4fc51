package org.nccl4j.api.group;

import java.util.Arrays;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/**
 * An operation that waits for its group's end; the object is reused in later groups, so that warm
 * groups allocate nothing. Owner: the thread of the group; others read it while that thread waits
 * for them.
 */
final class Task {
  private GroupLauncher launcher;
  private long shape;
  private ReductionOperator operator;

  /** Errors of a quantised sum; null where it keeps none. */
  private DeviceMemory residual;

  private DeviceMemory send;
  private DeviceMemory recv;
  private long count;
  private DeviceStream stream;

  /** True if it has a lease of its stream; else the operation before it has one. */
  private boolean leasesStream;

  /**
   * Begins the leases of an operation that waits for its group's end, which {@link #clear} ends.
   *
   * @param other memory of the operator, or of errors; null where there is none
   * @param stream null where the operation before it has a lease of its stream
   * @throws InvalidUsageException if something is closed; then there is no lease
   */
  @HotPath
  static void lease(DeviceMemory send, DeviceMemory recv, DeviceMemory other, DeviceStream stream) {
    Leases.begin(send, recv);
    try {
      Leases.begin(other, null);
      try {
        if (stream != null) {
          Leases.begin(stream);
        }
      } catch (InvalidUsageException e) {
        Leases.end(other, null);
        throw e;
      }
    } catch (InvalidUsageException e) {
      Leases.end(send, recv);
      throw e;
    }
  }

  /**
   * Makes it an operation, whose leases have begun; {@link #on} says the rest.
   *
   * @param newShape as {@link CallShape} has it
   * @param newOperator what reduces instead of the shape's operator; null where that does
   */
  @HotPath
  Task set(GroupLauncher newLauncher, long newShape, ReductionOperator newOperator) {
    launcher = newLauncher;
    shape = newShape;
    operator = newOperator;
    return this;
  }

  /**
   * Makes it a send or receive that {@code RepeatedExchange} holds, with leases that last after
   * their close.
   *
   * @param itsStream true if it has a lease of the stream too
   * @throws InvalidUsageException if something is over; then there is no lease
   */
  void setHeld(
      GroupLauncher newLauncher, P2pTasks.Known call, DeviceStream newStream, boolean itsStream) {
    Leases.extend(call.buffer(), null);
    if (itsStream && !Leases.of(newStream).extend()) {
      Leases.end(call.buffer(), null);
      throw Leases.closed(newStream);
    }
    DeviceMemory from = call.sends() ? call.buffer() : null;
    DeviceMemory to = call.sends() ? null : call.buffer();
    set(newLauncher, call.shape(), null).on(from, to, call.count(), newStream).leasing(itsStream);
  }

  /** Gives it its buffers and stream. */
  @HotPath
  Task on(DeviceMemory newSend, DeviceMemory newRecv, long newCount, DeviceStream newStream) {
    send = newSend;
    recv = newRecv;
    count = newCount;
    stream = newStream;
    return this;
  }

  /** Has it add and keep the errors of a quantised sum. */
  @HotPath
  Task feeding(DeviceMemory newResidual) {
    residual = newResidual;
    return this;
  }

  /** Notes that the lease of its stream is its own to end, or that of the operation before it. */
  @HotPath
  Task leasing(boolean itsStream) {
    leasesStream = itsStream;
    return this;
  }

  /** Keeps nothing of the operation. */
  @HotPath
  void clear() {
    Leases.end(send, recv);
    if (operator != null) {
      Leases.end(operator.memory(), null);
    }
    Leases.end(residual, null);
    if (leasesStream) {
      Leases.of(stream).end();
    }
    set(null, 0, null).on(null, null, 0, null).feeding(null).leasing(false);
  }

  boolean leasesStream() {
    return leasesStream;
  }

  GroupLauncher launcher() {
    return launcher;
  }

  /** Operation, element type, operator and root, as {@link CallShape} has them. */
  long shape() {
    return shape;
  }

  Operation operation() {
    return CallShape.operation(shape);
  }

  DeviceMemory send() {
    return send;
  }

  DeviceMemory recv() {
    return recv;
  }

  long count() {
    return count;
  }

  ReductionOperator operator() {
    return operator;
  }

  DeviceMemory residual() {
    return residual;
  }

  int root() {
    return CallShape.root(shape);
  }

  DeviceStream stream() {
    return stream;
  }

  /** The buffer of a send or receive. */
  @HotPath
  DeviceMemory ofSingle() {
    return CallShape.isSend(shape) ? send : recv;
  }

  /** True if this is a send or a receive. */
  boolean isSingle() {
    return CallShape.isP2p(shape);
  }

  /**
   * Tasks in the order of their calls. A general list checks the type of each element that it
   * returns, which takes a tenth of a small group's time. Owner: the thread of the group; others
   * read it while that thread waits for them.
   */
  static final class Row {
    private Task[] tasks;
    private int size;

    /** An empty list with room for some. */
    Row(int room) {
      tasks = new Task[room];
    }

    @HotPath
    int size() {
      return size;
    }

    @HotPath
    Task get(int index) {
      return tasks[index];
    }

    @HotPath
    void add(Task task) {
      if (size == tasks.length) {
        grow();
      }
      tasks[size++] = task;
    }

    private void grow() {
      tasks = Arrays.copyOf(tasks, 2 * size);
    }

    /** Drops all but the first ones. */
    void cut(int most) {
      Arrays.fill(tasks, most, size, null);
      size = most;
    }

    /** Drops all. */
    void clear() {
      cut(0);
    }

    boolean isEmpty() {
      return size == 0;
    }
  }
}
