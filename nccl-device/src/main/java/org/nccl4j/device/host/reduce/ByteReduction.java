package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/** Types of one byte. */
abstract class ByteReduction extends StagedReduction {
  final byte[] left = new byte[BLOCK_BYTES];
  final byte[] right = new byte[BLOCK_BYTES];

  ByteReduction(DataType type, RedOp op, int ranks, int few) {
    super(type, op, ranks, BLOCK_BYTES, few);
  }

  /** a op b. */
  abstract byte one(byte a, byte b);

  /** a / ranks. */
  abstract byte quotient(byte a);

  @Override
  @HotPath
  final void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.put(toIndex + i, one(a.get(aIndex + i), b.get(bIndex + i)));
    }
  }

  @Override
  @HotPath
  final void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.put(toIndex + i, quotient(from.get(fromIndex + i)));
    }
  }

  @Override
  @HotPath
  final void loadLeft(ByteBuffer window, int index, int count) {
    load(window, index, left, count);
  }

  @Override
  @HotPath
  final void loadRight(ByteBuffer window, int index, int count) {
    load(window, index, right, count);
  }

  @HotPath
  private static void load(ByteBuffer window, int index, byte[] to, int count) {
    window.get(index, to, 0, count);
  }

  @Override
  @HotPath
  final void store(ByteBuffer window, int index, int count) {
    window.put(index, left, 0, count);
  }
}
