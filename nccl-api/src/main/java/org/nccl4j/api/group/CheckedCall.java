package org.nccl4j.api.group;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.Leases;

/**
 * The valid arguments of a rank's last call: a call with the same arguments needs no check of
 * properties that cannot change. Owned by the thread that launches; other threads may compare, and
 * compare again once they launch.
 */
final class CheckedCall {
  /**
   * One call in so many counts as another, so that C2 compiles the check into a warm call. It would
   * else throw the code away when a call with other arguments came.
   */
  static final int CHECKED = 256;

  /** Calls that were compared; roughly, where several threads call. */
  private int calls;

  private long shape;
  private long count = -1;
  private DeviceMemory send;
  private DeviceMemory recv;
  private DeviceStream stream;

  /** True if a call has the same arguments, and none of them was closed since. */
  @HotPath
  boolean repeats(
      long nextShape,
      DeviceMemory nextSend,
      DeviceMemory nextRecv,
      long nextCount,
      DeviceStream nextStream) {
    calls++;
    long compared = (calls & CHECKED - 1) == 0 ? ~nextCount : nextCount;
    return isSame(nextShape, nextSend, nextRecv, compared, nextStream)
        && isOpen(nextSend)
        && isOpen(nextRecv)
        && Leases.of(nextStream).isOpen();
  }

  /** True if a call has the same arguments. */
  @HotPath
  boolean isSame(
      long nextShape,
      DeviceMemory nextSend,
      DeviceMemory nextRecv,
      long nextCount,
      DeviceStream nextStream) {
    return nextStream != null
        && isSameNumber(shape, nextShape)
            & isSameNumber(count, nextCount)
            & isSameObject(send, nextSend)
            & isSameObject(recv, nextRecv)
            & isSameObject(stream, nextStream);
  }

  /** True if both are the same object. One profile for all, so that C2 knows both outcomes. */
  @HotPath
  @SuppressWarnings("ReferenceEquality")
  private static boolean isSameObject(Object one, Object other) {
    return one == other;
  }

  /** True if both are the same number; likewise. */
  @HotPath
  private static boolean isSameNumber(long one, long other) {
    return one == other;
  }

  /** Takes the arguments of a call that have been checked, unless a buffer is closed. */
  @HotPath
  void set(
      long newShape,
      DeviceMemory newSend,
      DeviceMemory newRecv,
      long newCount,
      DeviceStream newStream) {
    shape = newShape;
    count = isOpen(newSend) && isOpen(newRecv) ? newCount : -1;
    send = newSend;
    recv = newRecv;
    stream = newStream;
  }

  @HotPath
  private static boolean isOpen(DeviceMemory memory) {
    return memory == null || memory.isOpen();
  }
}
