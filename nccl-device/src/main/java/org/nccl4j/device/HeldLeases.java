package org.nccl4j.device;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * The memories and the stream of a group of one thread, held without being counted in their {@link
 * Leases}: six atomic operations take as long as a small exchange of two ranks. Close looks at all
 * these objects first, and counts a lease for the holder, which the holder ends.
 *
 * <p>The holder has no fence. A close that happens after the call finds what the call holds. A
 * close at the same time may not find it: then it is as if it had come before the call, and the
 * launch, which looks at its memories and its stream, is refused. A close at the same time as the
 * group's end may count a lease that the holder no longer ends; {@link Leases#logOverdue} ends it.
 */
public final class HeldLeases {
  /** All of living holders. */
  private static final List<WeakReference<HeldLeases>> ALL = new CopyOnWriteArrayList<>();

  static {
    Leases.tell(
        new Leases.Holders() {
          @Override
          public void closing(Leases leases) {
            countFor(leases);
          }

          @Override
          public void look() {
            HeldLeases.look();
          }
        });
  }

  private Leases first;
  private Leases second;
  private Leases third;

  /** Leases that were counted for the holder; null for none. Guarded by this object. */
  private volatile List<Leases> counted;

  /** A holder of nothing. */
  public HeldLeases() {
    ALL.removeIf(other -> other.get() == null);
    ALL.add(new WeakReference<>(this));
  }

  /** Holds those of a memory and of a stream. Of the holder's thread, as the next two. */
  @HotPath
  public void hold(Leases memory, Leases stream) {
    first = memory;
    third = stream;
  }

  /** Holds those of one more memory. */
  @HotPath
  public void holdAlso(Leases memory) {
    second = memory;
  }

  /** Holds nothing any more. */
  @HotPath
  public void release() {
    first = null;
    second = null;
    third = null;
    if (counted != null) {
      endUnheld();
    }
  }

  /** Counts a lease for each holder of what is about to be closed. Any thread. */
  private static void countFor(Leases closing) {
    for (WeakReference<HeldLeases> each : ALL) {
      HeldLeases holder = each.get();
      if (holder != null && holder.holds(closing)) {
        holder.count(closing);
      }
    }
  }

  /** Ends leases that holders no longer need. Called repeatedly while there are communicators. */
  private static void look() {
    for (WeakReference<HeldLeases> each : ALL) {
      HeldLeases holder = each.get();
      if (holder != null && holder.counted != null) {
        holder.endUnheld();
      }
    }
  }

  @SuppressWarnings("ReferenceEquality")
  private boolean holds(Leases leases) {
    return first == leases || second == leases || third == leases;
  }

  private void count(Leases leases) {
    if (!leases.extend()) {
      return;
    }
    synchronized (this) {
      List<Leases> more = counted == null ? new ArrayList<>() : counted;
      more.add(leases);
      counted = more;
    }
    if (!holds(leases)) { // the holder may have released it before it could see the lease
      endUnheld();
    }
  }

  private void endUnheld() {
    List<Leases> over = new ArrayList<>();
    synchronized (this) {
      if (counted != null) {
        counted.removeIf(leases -> !holds(leases) && over.add(leases));
        counted = counted.isEmpty() ? null : counted;
      }
    }
    over.forEach(Leases::end); // frees: not under the lock
  }
}
