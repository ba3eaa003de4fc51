import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The ways to add off-heap memory that were weighed for the host device, each alone in a JVM:
 * {@code java --add-modules jdk.incubator.vector docs/benchmarks/HostReductionChoices.java WAY}.
 */
public class HostReductionChoices {
  static final int BLOCK = 2048;
  static final VectorSpecies<Float> F = FloatVector.SPECIES_PREFERRED;
  static final VectorSpecies<Integer> I = IntVector.SPECIES_PREFERRED;
  static final float[] FA = new float[BLOCK];
  static final float[] FB = new float[BLOCK];
  static final int[] IA = new int[BLOCK];
  static final int[] IB = new int[BLOCK];

  interface Way {
    void add(ByteBuffer a, ByteBuffer b, int words);
  }

  public static void main(String[] arguments) {
    Way way =
        switch (arguments[0]) {
          case "float-buffer" -> HostReductionChoices::floatBuffer;
          case "float-staged" -> (a, b, words) -> floatStaged(a, b, words, false);
          case "float-staged-vector" -> (a, b, words) -> floatStaged(a, b, words, true);
          case "bfloat16-staged" -> (a, b, words) -> bfloat16Staged(a, b, words, false);
          case "bfloat16-staged-vector" -> (a, b, words) -> bfloat16Staged(a, b, words, true);
          default -> throw new IllegalArgumentException(arguments[0]);
        };
    System.out.printf("%-24s", arguments[0]);
    for (int bytes : new int[] {64 << 10, 32 << 20}) {
      ByteBuffer a = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
      ByteBuffer b = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
      for (int i = 0; i < bytes; i += 4) {
        a.putFloat(i, 1 + i % 999 / 1000f);
        b.putFloat(i, i % 99 / 10000f);
      }
      int calls = Math.max(1, (64 << 20) / bytes);
      double[] rates = new double[15];
      for (int round = -15; round < rates.length; round++) {
        long begin = System.nanoTime();
        for (int i = 0; i < calls; i++) {
          way.add(a, b, bytes >> 2);
        }
        if (round >= 0) {
          rates[round] = (double) bytes * calls / (System.nanoTime() - begin);
        }
      }
      Arrays.sort(rates);
      System.out.printf("  %d KiB: %.1f GB/s", bytes >> 10, rates[rates.length / 2]);
    }
    System.out.println();
  }

  static void floatBuffer(ByteBuffer a, ByteBuffer b, int words) {
    for (int i = 0; i < 4 * words; i += 4) {
      a.putFloat(i, a.getFloat(i) + b.getFloat(i));
    }
  }

  static void floatStaged(ByteBuffer a, ByteBuffer b, int words, boolean vector) {
    FloatBuffer left = a.asFloatBuffer();
    FloatBuffer right = b.asFloatBuffer();
    for (int at = 0; at < words; at += BLOCK) {
      left.get(at, FA, 0, BLOCK);
      right.get(at, FB, 0, BLOCK);
      if (vector) {
        for (int i = 0; i < BLOCK; i += F.length()) {
          FloatVector.fromArray(F, FA, i).add(FloatVector.fromArray(F, FB, i)).intoArray(FA, i);
        }
      } else {
        for (int i = 0; i < BLOCK; i++) {
          FA[i] += FB[i];
        }
      }
      left.put(at, FA, 0, BLOCK);
    }
  }

  static void bfloat16Staged(ByteBuffer a, ByteBuffer b, int words, boolean vector) {
    IntBuffer left = a.asIntBuffer();
    IntBuffer right = b.asIntBuffer();
    for (int at = 0; at < words; at += BLOCK) {
      left.get(at, IA, 0, BLOCK);
      right.get(at, IB, 0, BLOCK);
      if (vector) {
        bfloat16Vector();
      } else {
        bfloat16Scalar();
      }
      left.put(at, IA, 0, BLOCK);
    }
  }

  static void bfloat16Scalar() {
    for (int i = 0; i < BLOCK; i++) {
      float low = Float.intBitsToFloat(IA[i] << 16) + Float.intBitsToFloat(IB[i] << 16);
      float high =
          Float.intBitsToFloat(IA[i] & 0xffff0000) + Float.intBitsToFloat(IB[i] & 0xffff0000);
      IA[i] = round(low) >>> 16 | (round(high) & 0xffff0000);
    }
  }

  static int round(float x) {
    int bits = Float.floatToRawIntBits(x);
    return Float.isNaN(x) ? 0x7fff0000 : bits + 0x7fff + (bits >>> 16 & 1);
  }

  static void bfloat16Vector() {
    for (int i = 0; i < BLOCK; i += I.length()) {
      IntVector a = IntVector.fromArray(I, IA, i);
      IntVector b = IntVector.fromArray(I, IB, i);
      IntVector low = sum(a.lanewise(VectorOperators.LSHL, 16), b.lanewise(VectorOperators.LSHL, 16));
      IntVector high = sum(a.and(0xffff0000), b.and(0xffff0000));
      low.lanewise(VectorOperators.LSHR, 16).or(high.and(0xffff0000)).intoArray(IA, i);
    }
  }

  static IntVector sum(IntVector a, IntVector b) {
    FloatVector sum = a.reinterpretAsFloats().add(b.reinterpretAsFloats());
    IntVector bits = sum.reinterpretAsInts();
    IntVector odd = bits.lanewise(VectorOperators.LSHR, 16).and(1);
    var nan = sum.test(VectorOperators.IS_NAN).cast(I);
    return bits.add(odd).add(0x7fff).blend(0x7fff0000, nan);
  }
}
