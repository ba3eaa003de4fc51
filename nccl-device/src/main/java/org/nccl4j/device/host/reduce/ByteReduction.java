package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/** Types of one byte. */
abstract class ByteReduction extends StagedReduction {
  final byte[] left = new byte[BLOCK_BYTES];
  final byte[] right = new byte[BLOCK_BYTES];

  ByteReduction(DataType type, RedOp op, int ranks) {
    super(type, op, ranks);
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
    if (count > FEW) {
      window.get(index, to, 0, count);
      return;
    }
    for (int i = 0; i < count; i++) {
      to[i] = window.get(index + i);
    }
  }

  @Override
  @HotPath
  final void store(ByteBuffer window, int index, int count) {
    if (count > FEW) {
      window.put(index, left, 0, count);
      return;
    }
    for (int i = 0; i < count; i++) {
      window.put(index + i, left[i]);
    }
  }
}
