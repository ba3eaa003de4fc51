package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.ShortBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/** Types of two bytes. */
abstract class ShortReduction extends StagedReduction {
  final short[] left = new short[BLOCK_BYTES >> 1];
  final short[] right = new short[BLOCK_BYTES >> 1];
  private final Views<ShortBuffer> views = new Views<>(ByteBuffer::asShortBuffer, 2);

  ShortReduction(DataType type, RedOp op, int ranks) {
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
  private void load(ByteBuffer window, int index, short[] to, int count) {
    if (count > FEW) {
      views.of(window, index).get(index >> 1, to, 0, count);
      return;
    }
    for (int i = 0; i < count; i++) {
      to[i] = window.getShort(index + (i << 1));
    }
  }

  @Override
  @HotPath
  final void store(ByteBuffer window, int index, int count) {
    if (count > FEW) {
      views.of(window, index).put(index >> 1, left, 0, count);
      return;
    }
    for (int i = 0; i < count; i++) {
      window.putShort(index + (i << 1), left[i]);
    }
  }
}
