package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/**
 * The greatest and the least of int8 and uint8, four to a word: C2 does not vectorise comparisons
 * of bytes, but it does this arithmetic on ints.
 */
final class Int8Order extends StagedReduction {
  private static final int EVEN = 0x00ff00ff;
  private static final int CARRY = 0x01000100;

  private final int[] left = new int[BLOCK_BYTES >> 2];
  private final int[] right = new int[BLOCK_BYTES >> 2];
  private final Views<IntBuffer> views = new Views<>(ByteBuffer::asIntBuffer, 4);

  /** Bits that, flipped, turn the type's order into the order of unsigned bytes. */
  private final int flip;

  Int8Order(RedOp op, boolean signed) {
    super(DataType.INT8, op, 1);
    this.flip = signed ? 0x80808080 : 0;
  }

  @Override
  @HotPath
  void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.put(toIndex + i, one(a.get(aIndex + i), b.get(bIndex + i)));
    }
  }

  @HotPath
  private byte one(byte a, byte b) {
    boolean isLess = ((a ^ flip) & 0xff) < ((b ^ flip) & 0xff);
    return isLess == (op == RedOp.MIN) ? a : b;
  }

  @Override
  @HotPath
  void loadLeft(ByteBuffer window, int index, int count) {
    load(window, index, left, count);
  }

  @Override
  @HotPath
  void loadRight(ByteBuffer window, int index, int count) {
    load(window, index, right, count);
  }

  @HotPath
  private void load(ByteBuffer window, int index, int[] to, int count) {
    int words = count >> 2;
    views.of(window, index).get(index >> 2, to, 0, words);
    for (int i = words << 2; i < count; i++) {
      int shift = (i & 3) << 3;
      to[words] = (to[words] & ~(0xff << shift)) | (window.get(index + i) & 0xff) << shift;
    }
  }

  @Override
  @HotPath
  void store(ByteBuffer window, int index, int count) {
    int words = count >> 2;
    views.of(window, index).put(index >> 2, left, 0, words);
    for (int i = words << 2; i < count; i++) {
      window.put(index + i, (byte) (left[words] >>> ((i & 3) << 3)));
    }
  }

  @Override
  @HotPath
  void combine(int count) {
    int words = (count + 3) >> 2;
    if (op == RedOp.MAX) {
      select(left, right, flip, words);
    } else {
      select(left, right, ~flip, words);
    }
  }

  /** a = the greater of a and b in the order that flip makes; the lesser if it is inverted. */
  @HotPath
  private static void select(int[] a, int[] b, int flip, int words) {
    for (int i = 0; i < words; i++) {
      int x = a[i] ^ flip;
      int y = b[i] ^ flip;
      // A carry stays where a byte of x is not less than that of y.
      int even = (((x & EVEN) | CARRY) - (y & EVEN)) & CARRY;
      int odd = (((x >>> 8 & EVEN) | CARRY) - (y >>> 8 & EVEN)) & CARRY;
      int notLess = (even - (even >>> 8)) | ((odd << 8) - odd);
      a[i] = (y ^ ((x ^ y) & notLess)) ^ flip;
    }
  }

  @Override
  @HotPath
  void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
    throw new UnsupportedOperationException("neither greatest nor least divides");
  }

  @Override
  @HotPath
  void divide(int count) {
    throw new UnsupportedOperationException("neither greatest nor least divides");
  }
}
