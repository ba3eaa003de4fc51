package org.nccl4j.api.window;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Predicate;
import org.nccl4j.api.bootstrap.CallOrder;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;

/**
 * Memory that a rank registered without the others. At the first operation on it all ranks register
 * it as windows together, or agree that they cannot; from then on it is found like a window. Any
 * thread.
 */
public final class Registrations {
  private static final System.Logger LOG = DebugLog.of("REG");

  private final WindowRegistry windows;
  private final String name;
  private final int rank;
  private final List<LocalRegistration> all = new CopyOnWriteArrayList<>();

  /** True if there is one that the ranks have not tried to use; written under the lock. */
  private volatile boolean pending;

  /** Those that {@link #pending} is about; null where they have changed. */
  private volatile PendingRanges ranges;

  Registrations(WindowRegistry windows, String name, int rank) {
    this.windows = windows;
    this.name = name;
    this.rank = rank;
  }

  /**
   * Registers memory on this rank, without the other ranks.
   *
   * @throws NcclException if the memory cannot be registered by anybody
   */
  public LocalRegistration add(DeviceMemory memory) {
    NcclException unfit = windows.unfit("register", memory);
    if (unfit != null) {
      throw unfit;
    }
    synchronized (this) {
      LocalRegistration made = new LocalRegistration(memory, obstacle());
      all.add(made);
      pending |= made.isPending();
      ranges = null;
      return made;
    }
  }

  /** Why no operation of this communicator can use registered memory; null if one can. */
  private String obstacle() {
    if (windows.team().size() == windows.nRanks() && windows.nRanks() > 1) {
      return null;
    }
    return windows.nRanks() == 1
        ? "the communicator has one rank"
        : "ranks are on several machines, or on GPUs that do not reach each other; networks only send from it";
  }

  /** True if the next operation may have to find out whether its buffers can be used. */
  @HotPath
  public boolean arePending() {
    return pending;
  }

  /** True if a buffer may lie in memory that the ranks have not tried to use. */
  @HotPath
  public boolean mayBePending(DeviceMemory memory) {
    return memory != null && ranges().mayHold(memory.address());
  }

  @HotPath
  private PendingRanges ranges() {
    PendingRanges known = ranges;
    return known == null ? findRanges() : known;
  }

  private synchronized PendingRanges findRanges() {
    PendingRanges found = new PendingRanges(all);
    ranges = found;
    return found;
  }

  private void changed() {
    pending = all.stream().anyMatch(LocalRegistration::isPending);
    ranges = null;
  }

  boolean isEmpty() {
    return all.isEmpty();
  }

  /**
   * A buffer of an operation.
   *
   * @param memory may be null
   * @param bytes that the operation uses
   */
  public record Buffer(DeviceMemory memory, long bytes) {}

  /**
   * Before an operation: where one of its buffers lies in memory that the ranks have not tried to
   * use, all ranks make windows of what their buffers lie in, one after the other. Ranks whose
   * buffers are not registered, or begin at other places of their memory, make all agree to go
   * without.
   *
   * @param buffers those that all ranks have
   * @throws TimeoutException naming the ranks that did not come, as their buffers are not
   *     registered
   */
  public void map(List<Buffer> buffers) {
    if (buffers.stream().anyMatch(this::isPending)) {
      CallOrder.Turn turn = windows.calls().enter();
      try (turn) {
        mapTogether(buffers);
      }
    }
  }

  /** A call before may have mapped them. */
  private synchronized void mapTogether(List<Buffer> buffers) {
    if (buffers.stream().anyMatch(this::isPending)) {
      List<Long> places = buffers.stream().map(this::place).toList();
      buffers.forEach(buffer -> map(buffer, places));
      changed();
    }
  }

  private boolean isPending(Buffer buffer) {
    LocalRegistration found = find(buffer);
    return found != null && found.isPending();
  }

  private LocalRegistration find(Buffer buffer) {
    for (LocalRegistration each : all) {
      if (buffer.memory != null && each.holds(buffer.memory.address(), buffer.bytes)) {
        return each;
      }
    }
    return null;
  }

  /** Where a buffer begins in registered memory; -1 if it is not in any. */
  private long place(Buffer buffer) {
    LocalRegistration found = find(buffer);
    return found == null ? -1 : buffer.memory.address() - found.memory().address();
  }

  private void map(Buffer buffer, List<Long> places) {
    LocalRegistration found = find(buffer);
    try {
      RegisteredWindow window = windows.register(found == null ? null : found.memory(), places);
      found.mapped(window);
    } catch (TimeoutException e) {
      throw new TimeoutException(
          ErrorId.RANKS_MISSING,
          "the first operation on registered memory of rank %d of communicator %s failed: %s"
              .formatted(rank, name, e.problem()),
          "register the buffers of an operation on all ranks or on none, and use them first in the"
              + " same operation on all ranks, or register windows",
          e);
    } catch (RemoteException | InternalErrorException e) {
      throw e;
    } catch (NcclException e) {
      // The same on all ranks.
      if (found != null) {
        found.refused(e.problem());
      }
      LOG.log(
          System.Logger.Level.DEBUG,
          "rank {0} of communicator {1} does not use registered memory: {2}",
          rank,
          name,
          e.problem());
    }
  }

  /**
   * Ends the use of one, on this rank alone.
   *
   * @param used whether operations of this rank that use a window have not ended
   * @param again as {@link WindowRegistry#release} takes it
   * @throws InvalidUsageException if it is of another communicator, was dropped before, or is in
   *     use
   */
  public synchronized void remove(
      LocalRegistration registration, Predicate<RegisteredWindow> used, boolean again) {
    if (!all.contains(registration)) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          "rank %d deregisters memory of another communicator, or twice, in communicator %s"
              .formatted(rank, name),
          "deregister each registration once, with the communicator that made it");
    }
    if (registration.windows().stream().anyMatch(used)) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          "rank %d deregisters memory that operations of communicator %s use".formatted(rank, name),
          "synchronize the streams of its operations first");
    }
    all.remove(registration);
    registration.drop();
    registration.windows().forEach(window -> windows.giveUp(window, !again));
    changed();
  }

  synchronized void close() {
    all.forEach(LocalRegistration::drop);
    all.clear();
    changed();
  }
}
