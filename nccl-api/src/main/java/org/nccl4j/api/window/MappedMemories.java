package org.nccl4j.api.window;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.ShareableMemory;
import org.nccl4j.device.symmetric.SymmetricDevice;

/**
 * The team's allocations in the flat range, each mapped once for all windows that lie in it.
 * Guarded by the registry.
 */
final class MappedMemories {
  private final WindowSetup setup;
  private final LsaTeam team;
  private final SymmetricDevice device;
  private final RegistrationProtocol agreement;
  private final Mapper mapper;
  private final MulticastBinder covering;
  private final Map<SymmetricMemory.Key, SymmetricMemory> memories = new HashMap<>();

  /**
   * This rank's allocations as the other ranks know them, by the device's numbers. An allocation
   * gets a new number after it was unmapped, so that no rank takes it for the one that was mapped.
   */
  private final Map<Long, Long> numbers = new HashMap<>();

  private long lastNumber;
  private SpaceAllocator space;
  private FlatRange range;

  MappedMemories(WindowSetup setup, LsaTeam team, RegistrationProtocol agreement, Mapper mapper) {
    this.setup = setup;
    this.team = team;
    this.device = (SymmetricDevice) setup.device();
    this.agreement = agreement;
    this.mapper = mapper;
    this.covering = new MulticastBinder(setup, team);
  }

  /** The reserved addresses; none are before the first mapping. */
  FlatRange range() {
    if (range == null) {
      range = reserve();
    }
    return range;
  }

  private FlatRange reserve() {
    try {
      return device.reserve(team.size(), space.size());
    } catch (NcclException | ArithmeticException e) {
      String why = e instanceof NcclException known ? known.problem() : e.getMessage();
      throw new SystemErrorException(
          ErrorId.MEMORY,
          "rank %d of communicator %s cannot reserve %d bytes of addresses for the windows of each of %d ranks (%s)"
              .formatted(setup.rank(), setup.name(), space.size(), team.size(), why),
          "set NCCL_WIN_STRIDE to fewer bytes on all ranks, or raise the limit on address space"
              + " (ulimit -v)",
          e);
    }
  }

  /** The number of an allocation of this rank, for the others. */
  long number(ShareableMemory own) {
    return numbers.computeIfAbsent(own.number(), key -> ++lastNumber);
  }

  /** True if an allocation of this rank is mapped. */
  boolean has(ShareableMemory own) {
    return memories.values().stream().anyMatch(memory -> memory.isOf(own));
  }

  /** The mapped memory of all the team's allocations, mapped now if it is not yet. */
  SymmetricMemory obtain(List<RegistrationMessage> all, ShareableMemory own, HandleOffer offer) {
    SymmetricMemory.Key key = agreement.key(all);
    SymmetricMemory known = memories.get(key);
    if (known != null) {
      if (!known.isOf(own)) {
        own.release();
      }
      return known;
    }
    if (space == null) {
      space =
          new SpaceAllocator(
              all.stream().mapToLong(RegistrationMessage::stride).max().orElseThrow());
    }
    long bytes = all.stream().mapToLong(RegistrationMessage::allocationBytes).max().orElseThrow();
    long offset = space.allocate(bytes, device.granularity());
    if (offset == SpaceAllocator.NONE) {
      throw new InvalidArgumentException(
          ErrorId.WINDOW,
          "an allocation of %d bytes does not fit the windows' range of %d bytes, of which %d are in"
                  .formatted(bytes, space.size(), space.usedBytes())
              + " use, in communicator "
              + setup.name(),
          "deregister windows, or set NCCL_WIN_STRIDE to more bytes on all ranks");
    }
    boolean covers = RegistrationMessage.allHaveMulticast(all);
    try {
      List<DeviceMemory> views = mapper.map(this::range, offset, own, offer, all);
      Multicast.Cover cover = covers ? covering.of(own, views, () -> unmap(views, offset)) : null;
      SymmetricMemory made = new SymmetricMemory(key, offset, own, views, cover);
      memories.put(key, made);
      return made;
    } catch (RuntimeException e) {
      space.free(offset);
      throw e;
    }
  }

  /** Has memories reached by one access, or tells what is in the way. */
  MulticastBinder covering() {
    return covering;
  }

  /**
   * This rank gives up a window in a memory. With its last one there the memory is unmapped, which
   * other ranks' mappings do not notice; but not one that is reached by one access, which all ranks
   * have to end. Its offset stays taken until all ranks have {@link #release}d it.
   *
   * @param unmaps false if kernels of this rank may still run on it
   */
  void leave(SymmetricMemory memory, boolean unmaps) {
    if (memory.leave() && unmaps && !memory.isCovered()) {
      unmap(memory);
    }
  }

  /** All ranks have given up a window in a memory; with the last one the memory ends. */
  void release(SymmetricMemory memory) {
    if (memory.release()) {
      memories.remove(memory.key);
      memory.uncover();
      unmap(memory);
      space.free(memory.offset);
    }
  }

  private void unmap(SymmetricMemory memory) {
    numbers.remove(memory.ownNumber());
    memory.unmap(range);
  }

  /** Unmaps everything, and gives the addresses back. */
  void close() {
    CloseAll all = new CloseAll();
    memories.values().forEach(memory -> all.take(() -> memory.unmap(range)));
    memories.clear();
    if (range != null) {
      all.take(range::close);
    }
    all.end();
  }

  private void unmap(List<DeviceMemory> views, long offset) {
    for (int place = 0; place < views.size(); place++) {
      range.unmap(place, offset, views.get(place).size());
    }
  }
}
