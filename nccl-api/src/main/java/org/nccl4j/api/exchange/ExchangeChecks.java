package org.nccl4j.api.exchange;

import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/**
 * Checks of an exchange's calls, before anything is changed.
 *
 * @param state of the communicator
 * @param of what the errors add to the name of a call
 */
public record ExchangeChecks(CommunicatorState state, String of) {
  /**
   * Checks the time and the stream of a call.
   *
   * @param what its name
   * @param closed true after the exchange was closed
   * @param capturable true if the call may be captured into a graph
   */
  public void call(String what, boolean closed, boolean capturable, DeviceStream stream) {
    GroupScope.refuseInGroup(what);
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED, where(what) + "it is closed", "close it after its last use");
    }
    state.checkOpen(what);
    Arguments.notNull(stream, "stream");
    if (stream.device() != state.device()) {
      throw wrong(
          what,
          ErrorId.STREAM,
          "the stream belongs to " + stream.device().name(),
          "create it on " + state.device().name());
    }
    if (!capturable && stream.isCapturing()) {
      throw new InvalidUsageException(
          ErrorId.CAPTURE,
          where(what) + "the stream is being captured, and the host takes part in this exchange",
          "call it outside the capture of a graph; among GPUs of one host it may be captured");
    }
  }

  /**
   * Checks a buffer.
   *
   * @param bytes that it needs
   * @param alignment of its begin on a GPU: a power of two
   */
  public void memory(String what, String name, DeviceMemory memory, long bytes, int alignment) {
    Arguments.notNull(memory, name);
    if (memory.device() != state.device() || memory.size() < bytes) {
      throw wrong(
          what,
          ErrorId.BUFFER,
          memory.size() < bytes
              ? "%s has %d bytes of %d".formatted(name, memory.size(), bytes)
              : "%s belongs to %s".formatted(name, memory.device().name()),
          "pass at least %d bytes of %s".formatted(bytes, state.device().name()));
    }
    if (!memory.isOpen()) {
      throw new InvalidUsageException(
          ErrorId.CLOSED, where(what) + name + " is closed", "close memory after its last use");
    }
    if ((memory.address() & alignment - 1) != 0 && state.device().kind() == Device.Kind.CUDA) {
      throw wrong(
          what,
          ErrorId.BUFFER,
          "%s begins at 0x%x, which is no multiple of %d"
              .formatted(name, memory.address(), alignment),
          "pass memory of a GPU that begins at a multiple of %d bytes".formatted(alignment));
    }
  }

  /** True if the first bytes of a memory are also bytes of another memory. */
  public static boolean overlap(DeviceMemory memory, long bytes, DeviceMemory other) {
    long apart = memory.address() - other.address();
    return bytes > 0 && apart < other.size() && apart > -bytes;
  }

  /** The error of an argument. */
  public InvalidArgumentException wrong(String what, ErrorId id, String problem, String remedy) {
    return new InvalidArgumentException(id, where(what) + problem, remedy);
  }

  /** Names a call and its rank, for errors. */
  public String where(String what) {
    return "%s%s on rank %d of communicator %s: ".formatted(what, of, state.rank(), state.name());
  }
}
