package org.nccl4j.transport.net.memory;

import java.util.List;
import java.util.Optional;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.memory.RdmaMemory;
import org.nccl4j.device.shm.OwnedFd;

/**
 * Memory for several ends whose slots a network card reaches in the GPU. An end's slots lie far
 * apart, as the layout has room for all channels, and only the first few are carried; so the ends
 * lie side by side, each in what the others leave unused:
 *
 * <pre>
 *   host                                     | GPU
 *   ... words of end 0, of end 1, ...        | slot 0 of end 0, of end 1, ... slot 1 of end 0, ...
 * </pre>
 *
 * <p>Each end maps all of it at addresses of its own and looks at its place alone. All ends of a
 * pool use as many bytes of a slot: one with more channels would reach into the next end's place,
 * so it has a pool of others like it.
 */
final class GdrSlotPool implements AutoCloseable {
  private static final long PAGE = 4096;

  private final RdmaMemory memory;
  private final ConnectionLayout layout;
  private final long step;
  private final int places;
  private int taken;
  private int left;

  /**
   * An empty bank.
   *
   * @param used bytes that an end uses of a slot
   * @param shared whether kernels of other ranks are to fill slots
   * @throws org.nccl4j.device.CudaException if the driver does not give the memory
   */
  GdrSlotPool(CudaDevice device, ConnectionLayout layout, long used, boolean shared) {
    this(
        shared
            ? RdmaMemory.createShared(device.gpu(), words(layout), slots(layout))
            : RdmaMemory.create(device.gpu(), words(layout), slots(layout)),
        layout,
        used);
    if (shared) {
      tryToShare();
    }
  }

  /**
   * The places in some memory.
   *
   * @param memory null where none is mapped
   */
  GdrSlotPool(RdmaMemory memory, ConnectionLayout layout, long used) {
    this.memory = memory;
    this.layout = layout;
    step = step(used);
    places = places(layout, used);
  }

  /** Returns a pool with room for another end that uses so many bytes of a slot. */
  static Optional<GdrSlotPool> withRoom(List<GdrSlotPool> pools, long used) {
    return pools.stream()
        .filter(pool -> pool.step == step(used) && pool.taken < pool.places)
        .findFirst();
  }

  /** A driver that does not export it is found out before anybody counts on it. */
  private void tryToShare() {
    try {
      memory.export().forEach(OwnedFd::close);
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  /** From end to end. */
  static long step(long used) {
    long most = Math.max(used, 2 * ConnectionLayout.CREDIT_BYTES);
    return (most + PAGE - 1) / PAGE * PAGE;
  }

  /** From an end's beginning to its first slot; the words are within, and else nothing used. */
  private static long words(ConnectionLayout layout) {
    return layout.simple(0);
  }

  private static long slots(ConnectionLayout layout) {
    return (long) ConnectionLayout.STEPS * layout.simpleSlotBytes();
  }

  /** Returns the number of ends that find room: at least one, which has the memory to itself. */
  static int places(ConnectionLayout layout, long used) {
    return (int) Math.max(1, Math.min(words(layout), layout.simpleSlotBytes()) / step(used));
  }

  /**
   * Room for another end.
   *
   * @throws org.nccl4j.device.CudaException if the driver does not map it; no room is taken then
   */
  Place take() {
    RdmaMemory.Range range = memory.map();
    long slots = next();
    return new Place(range, slots - words(layout), slots);
  }

  /** Takes the next place; returns where its first slot begins, from the boundary. */
  long next() {
    return taken++ * step;
  }

  /**
   * Returns the handle with which another rank maps an end's room, and with it the room of the
   * others.
   */
  SharedEnd share(Place place) {
    return new SharedEnd(memory.export(), memory.shared(), place.words);
  }

  /** An end has no more use for its room, which is not given to another. */
  void leave(Place place) {
    left++;
    place.range.close();
  }

  /** True if no end is there. */
  boolean isDeserted() {
    return left == taken;
  }

  /** Bytes of the GPU's memory. */
  long bytes() {
    return memory.gpuBytes();
  }

  /** Gives the memory up, which lives on while ends have it mapped. */
  @Override
  public void close() {
    memory.close();
  }

  /**
   * An end's room.
   *
   * @param range in which it lies, the end's own
   * @param words where its words begin, from the boundary between the host's memory and the GPU's
   * @param slots where its first slot begins, likewise
   */
  record Place(RdmaMemory.Range range, long words, long slots) {}
}
