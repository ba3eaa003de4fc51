package org.nccl4j.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.Team;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.host.HostBarrier;

/**
 * What kernels of a user's own need beside windows: the team, barriers, lines for small values. On
 * CUDA a kernel gets {@link #address()} as a pointer to a {@code nccl4jDeviceCommunicator} (header
 * {@code nccl4j_device.cuh}, unpacked by {@code ./nccl device-headers}); on the host, where kernels
 * are Java, there are {@link Window#peer} and {@link #barrier}.
 *
 * <p>Made by all ranks together ({@link Communicator#createDeviceCommunicator}), closed by each
 * alone, before its communicator and after the last kernel that uses it, on all ranks.
 */
public final class DeviceCommunicator implements AutoCloseable {
  private static final int BYTES = 72;
  private static final long WORD_STRIDE = 128;
  private static final int LINE_BYTES = 16;
  private static final int MOST = 4096;

  private final WindowRegistry windows;
  private final Team team;
  private final RegisteredWindow resources;
  private final DeviceMemory memory;
  private final DeviceMemory handle;
  private final List<HostBarrier> barriers = new ArrayList<>();
  private boolean closed;

  private DeviceCommunicator(
      WindowRegistry windows,
      int rank,
      int barrierCount,
      int slots,
      DeviceMemory memory,
      RegisteredWindow resources) {
    this.windows = windows;
    this.team = windows.team();
    this.memory = memory;
    this.resources = resources;
    Device device = windows.device();
    List<DeviceMemory> peers = resources.view().peers();
    ByteBuffer layout = ByteBuffer.allocateDirect(BYTES).order(ByteOrder.nativeOrder());
    Window.putHandle(layout, resources.view(), windows.stride(), team);
    layout.putInt(rank).putInt(windows.nRanks()).putInt(team.first()).putInt(barrierCount);
    layout.putLong(epochs(barrierCount, team.size())).putLong(lines(barrierCount, team.size()));
    layout.putInt(slots).putInt(0);
    handle = device.allocate(BYTES);
    handle.write(0, layout.flip());
    for (int b = 0; device.kind() == Device.Kind.HOST && b < barrierCount; b++) {
      barriers.add(new HostBarrier(peers, team.place(), b * team.size() * WORD_STRIDE));
    }
  }

  static DeviceCommunicator create(WindowRegistry windows, int rank, int barriers, int slots) {
    if (barriers < 0 || barriers > MOST || slots < 0 || slots > MOST) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "a device communicator with %d barriers and %d slots".formatted(barriers, slots),
          "ask for 0 to " + MOST + " of each");
    }
    int team = windows.team().size();
    long bytes = lines(barriers, team) + 2L * team * Math.max(1, slots) * LINE_BYTES;
    DeviceMemory memory = windows.device().memAlloc(bytes);
    try {
      RegisteredWindow window = windows.registerForLibrary(memory);
      return new DeviceCommunicator(windows, rank, barriers, slots, memory, window);
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  private static long epochs(int barriers, int team) {
    return Math.max(1, barriers) * team * WORD_STRIDE;
  }

  private static long lines(int barriers, int team) {
    return (epochs(barriers, team) + 8L * (barriers + 1) + 127) / 128 * 128;
  }

  /** Where the device finds its {@code nccl4jDeviceCommunicator}. */
  public long address() {
    return handle.address();
  }

  /** The ranks that reach each other's windows, ascending. */
  public List<Integer> team() {
    return team.ranks();
  }

  /** Bytes of this rank's device that it holds. */
  public long memoryBytes() {
    return memory.size() + handle.size();
  }

  /**
   * On the host: waits in this thread until every rank of the team has called it for the same
   * barrier; what they wrote before is then seen. One thread a rank for each barrier.
   *
   * @throws TimeoutException if one has not in time; the barrier is then of no further use
   * @throws InvalidUsageException on CUDA, where kernels have barriers of their own
   */
  public void barrier(int index, Duration patience) {
    Given.notNull(patience, "time to wait");
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
          "a rank did not come to barrier %d within %s".formatted(index, patience),
          "find out why, or wait longer");
    }
  }

  /** Frees the handle; the window goes with the communicator. Calling it again does nothing. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      handle.close();
      windows.releaseForLibrary(resources, memory);
    }
  }
}
