package org.nccl4j.api.exchange;

import java.util.function.Supplier;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.PlannedAlgorithms;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

/**
 * One rank's turn to launch the calls of an exchange, in the order of its operations: {@link
 * #enter} takes it, and {@link #close} gives it back. Hooks see a call in several launches once;
 * the flight recorder has all launches.
 */
final class LaunchTurn implements AutoCloseable {
  /** Parts of calls, in the place of a root. */
  private static final int SENDS = 0;

  private static final int RECEIVES = 1;

  private final Launcher launcher;
  private final DataType type;

  /** Elements of a call, for hooks and the recorder. */
  private long elements;

  LaunchTurn(Launcher launcher, DataType type) {
    this.launcher = launcher;
    this.type = type;
  }

  /** Waits for the turn, in which plans are asked for and launched; as {@link Launcher#enter}. */
  LaunchTurn enter() {
    launcher.enter();
    return this;
  }

  /** Ends the turn. */
  @Override
  public void close() {
    launcher.leave();
  }

  /** Sets the elements of the calls from now on. */
  void count(long newElements) {
    elements = newElements;
  }

  /** Launches a call, or the first part of one, of which hooks are told. */
  void first(
      Operation operation,
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream) {
    launcher.launching(1);
    next(operation, plan, send, recv, stream);
    launcher.tell(operation.key(), elements, type, 0, stream);
  }

  /** Launches a call that combines, in the same memory, what it has received. */
  void combining(
      Operation operation,
      KernelPlan exchange,
      DeviceMemory send,
      KernelPlan combination,
      DeviceMemory received,
      DeviceStream stream) {
    launcher.launching(2);
    next(operation, exchange, send, null, stream);
    launcher.launchOther(
        combination, received, received, stream, shape(operation, RECEIVES), elements);
    launcher.tell(operation.key(), elements, type, 0, stream);
  }

  /** Launches a further part of a call. */
  void next(
      Operation operation,
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream) {
    launcher.launchOther(plan, send, recv, stream, shape(operation, SENDS), elements);
  }

  /** Launches a further part of a call that only receives. */
  void receive(Operation operation, KernelPlan plan, DeviceMemory recv, DeviceStream stream) {
    launcher.launchOther(plan, null, recv, stream, shape(operation, RECEIVES), elements);
  }

  private long shape(Operation operation, int part) {
    return CallShape.of(operation, type, RedOp.SUM, part);
  }

  /**
   * Notes the bytes that calls send.
   *
   * @param most for each element
   */
  void noteBytes(PlannedAlgorithms planned, Operation operation, double most) {
    planned.putElementBytes(shape(operation, SENDS), most);
  }

  /** Prepares plans, in a turn of their own. */
  <T> T prepare(Supplier<T> plans) {
    launcher.enter();
    try {
      return plans.get();
    } finally {
      launcher.leave();
    }
  }

  /** Gives plans back, in a turn of their own; as {@link Launcher#discard}. */
  void discard(Runnable plans) {
    launcher.discard(plans);
  }
}
