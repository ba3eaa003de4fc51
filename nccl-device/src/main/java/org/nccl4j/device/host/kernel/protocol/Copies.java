package org.nccl4j.device.host.kernel.protocol;

import java.nio.ByteBuffer;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.host.memory.HostMemory;

/** Copies between host memories. */
public final class Copies {
  private static final boolean ADDRESSES = NativeMemory.hasAddresses();

  /**
   * Up to so many bytes are copied word by word. Byte buffers check each access: without addresses
   * fewer are.
   */
  private static final int FEW = ADDRESSES ? 128 : 56;

  /**
   * From here on the C library copies where nothing is measured. On some processors it writes whole
   * cache lines without asking for what was in them, which another core's cache may hold.
   */
  static final int MANY = 8 << 10;

  private Copies() {}

  /** Copies up to {@link HostMemory#MAX_ACCESS} bytes. */
  @HotPath
  public static void copy(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    if (bytes >= MANY) {
      HostMemory.move(source.address() + sourceOffset, target.address() + targetOffset, bytes);
      return;
    }
    if (ADDRESSES && bytes <= FEW) {
      copyFew(source.address() + sourceOffset, target.address() + targetOffset, bytes);
      return;
    }
    if (bytes > FEW) {
      copyByJvm(source, sourceOffset, target, targetOffset, bytes);
      return;
    }
    copyFew(
        source.window(sourceOffset),
        source.index(sourceOffset),
        target.window(targetOffset),
        target.index(targetOffset),
        bytes);
  }

  @HotPath
  static void copyByJvm(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    ByteBuffer to = target.window(targetOffset);
    to.put(
        target.index(targetOffset), source.window(sourceOffset), source.index(sourceOffset), bytes);
  }

  @HotPath
  private static void copyFew(long from, long to, int bytes) {
    int at = 0;
    for (; at + 8 <= bytes; at += 8) {
      NativeMemory.putLong(to + at, NativeMemory.getLong(from + at));
    }
    if (at + 4 <= bytes) {
      NativeMemory.putInt(to + at, NativeMemory.getInt(from + at));
      at += 4;
    }
    for (; at < bytes; at++) {
      NativeMemory.putByte(to + at, NativeMemory.getByte(from + at));
    }
  }

  @HotPath
  private static void copyFew(
      ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int bytes) {
    int at = 0;
    for (; at + 8 <= bytes; at += 8) {
      to.putLong(toIndex + at, from.getLong(fromIndex + at));
    }
    for (; at < bytes; at++) {
      to.put(toIndex + at, from.get(fromIndex + at));
    }
  }

  /** Copies any number of bytes, unless source and target are the same. */
  public static void copyAll(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, long bytes) {
    if (source.address() + sourceOffset == target.address() + targetOffset) {
      return;
    }
    for (long at = 0; at < bytes; at += HostMemory.MAX_ACCESS) {
      int part = (int) Math.min(HostMemory.MAX_ACCESS, bytes - at);
      copy(source, sourceOffset + at, target, targetOffset + at, part);
    }
  }
}
