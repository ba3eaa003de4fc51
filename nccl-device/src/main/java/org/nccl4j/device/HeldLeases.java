package org.nccl4j.device;

import java.lang.ref.WeakReference;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
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

  /** Leases that were counted for holders and not ended yet. */
  private static final Queue<Counted> COUNTED = new ConcurrentLinkedQueue<>();

  static {
    Leases.tell(
        new Leases.Holders() {
          @Override
          public void closing(Leases leases) {
            countFor(leases);
          }

          @Override
          public void look() {
            endUnheld();
          }
        });
  }

  private Leases first;
  private Leases second;
  private Leases third;

  private final WeakReference<HeldLeases> self = new WeakReference<>(this);

  /** Set when a lease was counted for the holder. */
  private volatile boolean counted;

  /** A lease that was counted for a holder, which its thread may have left since. */
  private record Counted(WeakReference<HeldLeases> holder, Leases leases) {
    boolean isHeld() {
      HeldLeases its = holder.get();
      return its != null && its.holds(leases);
    }
  }

  /** A holder of nothing. */
  public HeldLeases() {
    ALL.removeIf(other -> other.get() == null);
    ALL.add(self);
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
    if (counted) {
      counted = false;
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
    endUnheld(); // also of closes after the last look
  }

  @SuppressWarnings("ReferenceEquality")
  private boolean holds(Leases leases) {
    return first == leases || second == leases || third == leases;
  }

  private void count(Leases leases) {
    if (!leases.extend()) {
      return;
    }
    COUNTED.add(new Counted(self, leases));
    counted = true;
  }

  /** Ends leases that holders no longer need: released, or collected with their threads. */
  private static void endUnheld() {
    for (Counted each : COUNTED) {
      if (!each.isHeld() && COUNTED.remove(each)) {
        each.leases.end();
      }
    }
  }
}
