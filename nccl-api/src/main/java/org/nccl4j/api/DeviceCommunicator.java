package org.nccl4j.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.window.DeviceCommRequirements;
import org.nccl4j.api.window.KernelMemory;
import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Patience;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.host.HostBarrier;

/**
 * Barriers, slots for small values and the team, for the user's own kernels on windows. A CUDA
 * kernel gets {@link #address()} as a pointer to a {@code nccl4jDeviceCommunicator} (header {@code
 * nccl4j_device.cuh}, unpacked by {@code ./nccl device-headers}). Java kernels on the host use
 * {@link Window#peer} and {@link #barrier}.
 *
 * <p>All ranks create it together ({@link Communicator#createDeviceCommunicator}). Each rank closes
 * it alone, before its communicator and after the last kernel on any rank that uses it.
 */
public final class DeviceCommunicator implements AutoCloseable {
  private static final int BYTES = 96;
  private static final long WORD_STRIDE = 128;
  private static final int LINE_BYTES = 16;
  private static final int MOST = 4096;

  private final WindowRegistry windows;
  private final LsaTeam team;

  /** The window of barriers and slots, and the nccl4jDeviceCommunicator. */
  private final KernelMemory memory;

  private final List<HostBarrier> barriers = new ArrayList<>();
  private boolean closed;

  private DeviceCommunicator(
      WindowRegistry windows, int rank, DeviceCommRequirements asked, KernelMemory memory) {
    this.windows = windows;
    this.team = windows.team();
    this.memory = memory;
    int barrierCount = asked.barriers();
    Device device = windows.device();
    List<DeviceMemory> peers = memory.window().view().peers();
    ByteBuffer layout = ByteBuffer.allocateDirect(BYTES).order(ByteOrder.nativeOrder());
    Window.putHandle(layout, memory.window().view(), windows.stride(), team);
    layout.putInt(rank).putInt(windows.nRanks()).putInt(team.first()).putInt(barrierCount);
    layout.putLong(epochs(barrierCount, team.size())).putLong(lines(barrierCount, team.size()));
    layout.putLong(counters(barrierCount, team.size()));
    layout.putInt(asked.slots()).putInt(0);
    memory.own().write(0, layout.flip());
    for (int b = 0; device.kind() == Device.Kind.HOST && b < barrierCount; b++) {
      barriers.add(new HostBarrier(peers, team.place(), b * team.size() * WORD_STRIDE));
    }
  }

  /** Creates this rank's device communicator; an error is reported to all ranks. */
  static DeviceCommunicator create(
      WindowRegistry windows, String name, int rank, DeviceCommRequirements asked) {
    KernelMemory memory =
        KernelMemory.make(
            windows,
            asked,
            () -> {
              check(asked, name, rank);
              return new KernelMemory.Bytes(bytes(asked, windows.team().size()), BYTES);
            });
    try {
      return new DeviceCommunicator(windows, rank, asked, memory);
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  private static void check(DeviceCommRequirements asked, String name, int rank) {
    if (Math.min(asked.barriers(), asked.slots()) < 0
        || Math.max(asked.barriers(), asked.slots()) > MOST) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "createDeviceCommunicator on rank %d of communicator %s asks for %s"
              .formatted(rank, name, asked),
          "ask for 0 to " + MOST + " of each");
    }
  }

  private static long bytes(DeviceCommRequirements asked, int team) {
    return lines(asked.barriers(), team) + 2L * team * Math.max(1, asked.slots()) * LINE_BYTES;
  }

  private static long epochs(int barriers, int team) {
    return Math.max(1, barriers) * team * WORD_STRIDE;
  }

  private static long counters(int barriers, int team) {
    return (epochs(barriers, team) + 8L * (3 * barriers + 1) + 127) / 128 * 128;
  }

  private static long lines(int barriers, int team) {
    return counters(barriers, team) + barriers * WORD_STRIDE;
  }

  /** The device address of the {@code nccl4jDeviceCommunicator}. */
  public long address() {
    return memory.own().address();
  }

  /** The ranks that can access each other's windows, ascending. */
  public List<Integer> team() {
    return team.ranks();
  }

  /** Bytes of this rank's device memory in use. */
  public long memoryBytes() {
    return memory.shared().size() + memory.own().size();
  }

  /**
   * Waits, on the host, until every rank of the team has called the same barrier. Earlier writes of
   * all ranks are then visible. One thread of each rank may use a barrier.
   *
   * @throws TimeoutException if a rank does not call it in time; the barrier is then unusable
   * @throws InvalidUsageException on CUDA, where kernels have their own barriers
   */
  public void barrier(int index, Duration patience) {
    Arguments.notNull(patience, "time to wait");
    if (closed || windows.device().kind() != Device.Kind.HOST) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          closed
              ? "a barrier of a closed device communicator is used"
              : "a barrier of a GPU's communicator is used from Java",
          closed
              ? "close it after its last use"
              : "use LsaBarrier of nccl4j_device.cuh in kernels");
    }
    if (index < 0 || index >= barriers.size()) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "barrier %d of %d".formatted(index, barriers.size()),
          "ask for more when the device communicator is created");
    }
    if (!barriers.get(index).await(patience)) {
      throw new TimeoutException(
          ErrorId.OPERATION,
          "a rank did not reach barrier %d within %s".formatted(index, Patience.text(patience)),
          "check that all ranks call the barrier, or pass a longer deadline");
    }
  }

  /**
   * Frees this rank's memory. The other ranks unmap it when all have closed theirs and create or
   * register something else, or close the communicator. Idempotent.
   */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      memory.close();
    }
  }
}
