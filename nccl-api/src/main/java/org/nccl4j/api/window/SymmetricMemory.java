package org.nccl4j.api.window;

import java.util.List;
import java.util.Optional;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * Allocations of all the team, mapped at one offset of the flat range; shared by the windows that
 * lie in them. Used by one thread at a time.
 */
final class SymmetricMemory {
  /**
   * The identity of a set of allocations: every rank's process and number in it.
   *
   * @param numbers by rank
   */
  record Key(List<String> numbers) {}

  final Key key;
  final long offset;
  final List<DeviceMemory> views;
  private final ShareableMemory own;
  private volatile Multicast.Cover cover;
  private int windows;

  /** Of these, windows that this rank has not given up. */
  private int inUse;

  private boolean unmapped;

  /**
   * Takes over what is mapped.
   *
   * @param own this rank's allocation, kept so that its number stays its own
   * @param views all of each allocation, by place in the team
   * @param cover as much of all of them as is reached by one access; null where there is no such
   *     yet
   */
  SymmetricMemory(
      Key key, long offset, ShareableMemory own, List<DeviceMemory> views, Multicast.Cover cover) {
    this.key = key;
    this.offset = offset;
    this.own = own;
    this.views = views;
    this.cover = cover;
  }

  /** True if it was tried to have it reached by one access. */
  boolean isCovered() {
    return cover != null;
  }

  /**
   * Has it reached by one access from now on, together with all other ranks.
   *
   * @param by makes the access
   */
  void cover(MulticastBinder by, Exchange exchange) {
    cover = by.of(own, views, exchange);
  }

  /** A part of it as it is reached by one access; null where it is not. */
  MulticastMemory multicast(long at, long bytes) {
    return Optional.ofNullable(cover)
        .flatMap(Multicast.Cover::memory)
        .filter(all -> at + bytes <= all.size())
        .map(all -> all.slice(at, bytes))
        .orElse(null);
  }

  /** True if this rank's part of it is an allocation, by this very object, and is mapped. */
  boolean isOf(ShareableMemory allocation) {
    return own == allocation && !unmapped;
  }

  /** The device's number of this rank's allocation. */
  long ownNumber() {
    return own.number();
  }

  /** One more window lies in it. */
  void retain() {
    windows++;
    inUse++;
  }

  /** This rank gives up one window; true if it was the last that this rank had. */
  boolean leave() {
    inUse--;
    return inUse == 0;
  }

  /** Drops one window, that all ranks have given up; true if it was the last. */
  boolean release() {
    windows--;
    return windows == 0;
  }

  /** Ends its being reached by one access; no operation of any rank may be running. */
  void uncover() {
    if (cover != null) {
      cover.close();
    }
  }

  /** Unmaps it on this rank, and closes its views. Calling it again does nothing. */
  void unmap(FlatRange range) {
    if (unmapped) {
      return;
    }
    unmapped = true;
    CloseAll all = new CloseAll();
    for (int i = 0; i < views.size(); i++) {
      int place = i;
      DeviceMemory view = views.get(place);
      all.take(view::close); // so that who has kept it gets an error, not a fault
      all.take(() -> range.unmap(place, offset, view.size()));
    }
    all.take(own::release);
    all.end();
  }
}
