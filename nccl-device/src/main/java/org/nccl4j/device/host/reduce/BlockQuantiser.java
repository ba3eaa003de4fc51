package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.ShortBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.device.numeric.Float8E4m3;
import org.nccl4j.device.numeric.FloatFormat;
import org.nccl4j.device.numeric.ShortFormat;

/**
 * A step of a quantised sum on the host: block by block, in float32 arithmetic. A block with a NaN
 * or an infinity gets the scale NaN, so that all its elements come out as NaN.
 *
 * <p>Owned by one thread at a time.
 */
public final class BlockQuantiser {
  private static final int CODES = 256;
  private static final int MAGNITUDE = 0x7fffffff;

  /** 1.5 times 2 to the 23: the last place of a sum with it is 1. */
  private static final float ROUNDER = 0x1.8p23f;

  private final QuantisedWork work;
  private final QuantisedWork.Parts parts;
  private final HostMemory residual;
  private final ShortFormat shortFormat; // null for FLOAT32
  private final float[] numbers = new float[CODES];
  private final Views<FloatBuffer> floats = new Views<>(ByteBuffer::asFloatBuffer, Float.BYTES);
  private final Views<ShortBuffer> shorts = new Views<>(ByteBuffer::asShortBuffer, Short.BYTES);
  private final float[] values;
  private final float[] old;
  private final short[] halves;
  private final byte[] codes;

  /** A step. */
  public BlockQuantiser(QuantisedWork work) {
    this.work = work;
    this.parts = work.parts();
    this.residual = work.residual() == null ? null : HostMemory.of(work.residual());
    this.shortFormat =
        parts.type() == DataType.FLOAT32 ? null : (ShortFormat) FloatFormat.of(parts.type());
    for (int code = 0; code < CODES; code++) {
      numbers[code] =
          parts.format() == DataType.INT8 ? (byte) code : Float8E4m3.toFloat((byte) code);
    }
    values = new float[parts.block()];
    old = new float[parts.block()];
    halves = new short[parts.block()];
    codes = new byte[parts.block()];
  }

  /** Runs the step. */
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    switch (work.step()) {
      case QUANTISE -> quantise(send, recv);
      case DEQUANTISE -> dequantise(send, recv);
      default -> sum(send, recv, work.step() == QuantisedWork.Step.SUM_AND_QUANTISE);
    }
  }

  @HotPath
  private void quantise(HostMemory elements, HostMemory wire) {
    for (int part = 0; part < parts.nParts(); part++) {
      long inPart = parts.elements(part);
      for (long at = 0; at < inPart; at += parts.block()) {
        int count = (int) Math.min(parts.block(), inPart - at);
        long element = part * parts.part() + at;
        load(elements, element * parts.type().bytes(), values, count);
        for (int copy = 1; copy < work.copies().number(); copy++) {
          long place = copy * work.copies().stride() + element * parts.type().bytes();
          load(elements, place, old, count);
          for (int i = 0; i < count; i++) {
            values[i] += old[i];
          }
        }
        if (residual != null) {
          read(residual, element * Float.BYTES, old, count);
          for (int i = 0; i < count; i++) {
            values[i] += old[i];
          }
        }
        float scale = writeBlock(wire, part * parts.bytes(), at, count);
        if (residual != null && !Float.isNaN(scale)) {
          for (int i = 0; i < count; i++) {
            values[i] -= numbers[codes[i] & 0xff] * scale;
          }
          write(residual, element * Float.BYTES, values, count);
        }
      }
    }
  }

  /**
   * Quantises the values to a block of a part.
   *
   * @param begin of the part, in bytes
   * @param at the block's first element in the part
   * @return the block's scale
   */
  @HotPath
  private float writeBlock(HostMemory wire, long begin, long at, int count) {
    float scale = code(count);
    long first = begin + at;
    wire.window(first).put(wire.index(first), codes, 0, count);
    long place = begin + parts.scales() + at / parts.block() * QuantisedWork.Parts.SCALE_BYTES;
    int index = wire.index(place);
    floats.of(wire.window(place), index).put(index / Float.BYTES, scale);
    return scale;
  }

  /** Makes the codes of the values; returns their scale. */
  @HotPath
  private float code(int count) {
    int most = 0;
    for (int i = 0; i < count; i++) {
      most = Math.max(most, Float.floatToRawIntBits(values[i]) & MAGNITUDE);
    }
    if (!QuantisedWork.Parts.isFinite(most)) {
      for (int i = 0; i < count; i++) {
        codes[i] = 0;
      }
      return Float.NaN;
    }
    float top = parts.most();
    float greatest = QuantisedWork.Parts.greatest(most, top);
    float factor = top / greatest;
    if (parts.format() == DataType.INT8) {
      for (int i = 0; i < count; i++) {
        codes[i] = (byte) (values[i] * factor + ROUNDER - ROUNDER);
      }
    } else {
      for (int i = 0; i < count; i++) {
        codes[i] = Float8E4m3.fromFloat(values[i] * factor);
      }
    }
    return QuantisedWork.Parts.scale(greatest, top);
  }

  @HotPath
  private void sum(HostMemory wire, HostMemory to, boolean quantises) {
    long inPart = parts.elements(work.index());
    for (long at = 0; at < inPart; at += parts.block()) {
      int count = (int) Math.min(parts.block(), inPart - at);
      float scale = readBlock(wire, 0, at, count);
      for (int i = 0; i < count; i++) {
        values[i] = numbers[codes[i] & 0xff] * scale;
      }
      for (int rank = 1; rank < parts.nParts(); rank++) {
        scale = readBlock(wire, rank * parts.bytes(), at, count);
        for (int i = 0; i < count; i++) {
          values[i] += numbers[codes[i] & 0xff] * scale;
        }
      }
      if (parts.divisor() > 1) {
        for (int i = 0; i < count; i++) {
          values[i] /= parts.divisor();
        }
      }
      if (quantises) {
        scale = writeBlock(to, 0, at, count);
        if (residual != null && !Float.isNaN(scale)) {
          keepErrorOfSum(at, count, scale);
        }
      } else {
        store(to, at, count);
      }
    }
  }

  /** Adds the error of a block of the sum to this rank's own: it enters its next sum. */
  @HotPath
  private void keepErrorOfSum(long at, int count, float scale) {
    long place = (work.index() * parts.part() + at) * Float.BYTES;
    read(residual, place, old, count);
    int weight = parts.divisor();
    for (int i = 0; i < count; i++) {
      old[i] += weight * (values[i] - numbers[codes[i] & 0xff] * scale);
    }
    write(residual, place, old, count);
  }

  @HotPath
  private void dequantise(HostMemory wire, HostMemory elements) {
    for (int part = 0; part < parts.nParts(); part++) {
      long inPart = parts.elements(part);
      for (long at = 0; at < inPart; at += parts.block()) {
        int count = (int) Math.min(parts.block(), inPart - at);
        float scale = readBlock(wire, part * parts.bytes(), at, count);
        for (int i = 0; i < count; i++) {
          values[i] = numbers[codes[i] & 0xff] * scale;
        }
        store(elements, part * parts.part() + at, count);
      }
    }
  }

  /** Reads the codes of a block of a part; returns its scale. */
  @HotPath
  private float readBlock(HostMemory wire, long begin, long at, int count) {
    long first = begin + at;
    wire.window(first).get(wire.index(first), codes, 0, count);
    long place = begin + parts.scales() + at / parts.block() * QuantisedWork.Parts.SCALE_BYTES;
    int index = wire.index(place);
    return floats.of(wire.window(place), index).get(index / Float.BYTES);
  }

  @HotPath
  private void load(HostMemory from, long place, float[] to, int count) {
    if (shortFormat == null) {
      read(from, place, to, count);
      return;
    }
    int index = from.index(place);
    shorts.of(from.window(place), index).get(index / Short.BYTES, halves, 0, count);
    for (int i = 0; i < count; i++) {
      to[i] = shortFormat.value(halves[i]);
    }
  }

  /** Rounds the values to elements. */
  @HotPath
  private void store(HostMemory to, long element, int count) {
    if (shortFormat == null) {
      write(to, element * Float.BYTES, values, count);
      return;
    }
    for (int i = 0; i < count; i++) {
      halves[i] = shortFormat.nearest(values[i]);
    }
    long place = element * Short.BYTES;
    int index = to.index(place);
    shorts.of(to.window(place), index).put(index / Short.BYTES, halves, 0, count);
  }

  @HotPath
  private void read(HostMemory from, long place, float[] to, int count) {
    int index = from.index(place);
    floats.of(from.window(place), index).get(index / Float.BYTES, to, 0, count);
  }

  @HotPath
  private void write(HostMemory to, long place, float[] from, int count) {
    int index = to.index(place);
    floats.of(to.window(place), index).put(index / Float.BYTES, from, 0, count);
  }
}
