package org.nccl4j.api.group;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.Leases;

/**
 * The arguments of a rank's last call, which are right: a call with the same ones needs no check of
 * what cannot change. Owned by the thread that launches; other threads may compare, and compare
 * again once they launch.
 */
final class CheckedCall {
  private long shape;
  private long count = -1;
  private DeviceMemory send;
  private DeviceMemory recv;
  private DeviceStream stream;

  /** True if a call has the same arguments, and none of them was closed since. */
  @HotPath
  @SuppressWarnings("ReferenceEquality")
  boolean repeats(
      long nextShape,
      DeviceMemory nextSend,
      DeviceMemory nextRecv,
      long nextCount,
      DeviceStream nextStream) {
    return isSame(nextShape, nextSend, nextRecv, nextCount, nextStream)
        && isOpen(nextSend)
        && isOpen(nextRecv)
        && Leases.of(nextStream).isOpen();
  }

  /** True if a call has the same arguments. */
  @HotPath
  @SuppressWarnings("ReferenceEquality")
  boolean isSame(
      long nextShape,
      DeviceMemory nextSend,
      DeviceMemory nextRecv,
      long nextCount,
      DeviceStream nextStream) {
    return shape == nextShape
        && count == nextCount
        && send == nextSend
        && recv == nextRecv
        && stream == nextStream
        && nextStream != null;
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
