package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.KernelPlan;

/** A plan on a GPU. Owned by the thread that launches. */
public interface CudaPlan extends KernelPlan {
  /** Returns the context that prepared the plan. */
  PlanContext owner();

  /** True if there is nothing to launch. */
  default boolean isEmpty() {
    return false;
  }

  /** True if there is nothing to launch for the launch's own buffers. */
  @HotPath
  default boolean isEmpty(DeviceMemory send, DeviceMemory recv) {
    return isEmpty();
  }

  /** Bytes that the launch's own send buffer needs; 0 where the plan knows its memory. */
  default long sendBytes() {
    return 0;
  }

  /** Bytes that the launch's own receive buffer needs, likewise. */
  default long recvBytes() {
    return 0;
  }

  /** Throws unless the launch's own buffers are as large as they have to be. */
  default void check(DeviceMemory send, DeviceMemory recv) {
    checkSize(send, sendBytes(), "send");
    checkSize(recv, recvBytes(), "receive");
  }

  /** Returns where its work may be beside other plans'; null if it is always launched alone. */
  default WorkGroup group() {
    return null;
  }

  private static void checkSize(DeviceMemory memory, long needed, String which) {
    if (needed > 0 && (memory == null || memory.size() < needed || isOver(memory))) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "the %s buffer has %s, and %d bytes are needed"
              .formatted(
                  which,
                  memory == null
                      ? "not been given"
                      : isOver(memory) ? "been closed" : memory.size() + " bytes",
                  needed),
          "pass a buffer for count elements, all-gather and reduce-scatter: times the ranks");
    }
  }

  /** A group launches also with memory that was closed after the call. */
  private static boolean isOver(DeviceMemory memory) {
    return Leases.of(memory).isOver();
  }

  /** Creates the error for a plan of another communicator, or a stream of another device. */
  static InvalidArgumentException foreign(String what, Object launching) {
    return new InvalidArgumentException(
        ErrorId.STREAM,
        "%s of another communicator or device is launched by %s".formatted(what, launching),
        "use what this communicator prepared, and a stream of its device");
  }

  /** Puts it into a stream, in the current context. Neither waits nor locks. */
  void launch(long send, long recv, GpuStream stream);
}
