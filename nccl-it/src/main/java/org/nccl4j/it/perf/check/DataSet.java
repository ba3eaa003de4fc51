package org.nccl4j.it.perf.check;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.workload.Segment;

/**
 * The data of one checked operation: fills send buffers, and compares receive buffers. Used by one
 * thread.
 */
public final class DataSet {
  private static final byte POISON = (byte) 0xa5;
  private static final int STAGE_BYTES = 1 << 19;

  private final DataType type;
  private final RedOp op;
  private final long reach;
  private final ElementCodec codec;
  private final TestValues values;
  private final Combination combination;
  private final Map<Integer, Pattern> patterns = new HashMap<>();
  private final ByteBuffer stage;

  /**
   * Data for one operation.
   *
   * @param op how it combines; whatever for an operation that only moves
   * @param reach the greatest index into any send buffer, plus one
   * @param seed the same on every rank, another one for another operation
   */
  public DataSet(DataType type, RedOp op, int nRanks, long reach, long seed) {
    this.type = type;
    this.op = op;
    this.reach = reach;
    codec = new ElementCodec(type);
    values = new TestValues(type, op, nRanks, seed);
    combination = new Combination(type, op, nRanks, values);
    stage =
        ByteBuffer.allocateDirect((int) Math.min(STAGE_BYTES, Math.max(1, reach * nRanks) * 8))
            .order(ByteOrder.nativeOrder());
  }

  /** Writes a rank's elements to its send buffer. */
  public void fillSend(int rank, DeviceMemory send) {
    pattern(rank).write(send, 0, send.size() / type.bytes());
  }

  /** Overwrites a receive buffer, so that what is right in it afterwards was received. */
  public static void poison(DeviceMemory memory) {
    memory.fill(POISON);
  }

  /** Returns the number of bytes of a poisoned memory that have changed. */
  public static long damage(DeviceMemory memory) {
    ByteBuffer bytes = ByteBuffer.allocate(Math.toIntExact(memory.size()));
    memory.read(0, bytes);
    long damaged = 0;
    for (byte value : bytes.array()) {
      damaged += value == POISON ? 0 : 1;
    }
    return damaged;
  }

  /** Compares a part of a receive buffer. */
  public CheckResult verify(Segment segment, DeviceMemory recv) {
    Pattern expected = pattern(segment.source());
    CheckResult verdict = CheckResult.RIGHT;
    for (long done = 0; done < segment.count(); ) {
      long left = Math.min(segment.count() - done, stage.capacity() / type.bytes());
      ByteBuffer want = expected.run(segment.from() + done, left);
      ByteBuffer got = stage.slice(0, want.remaining()).order(ByteOrder.nativeOrder());
      recv.read((segment.at() + done) * type.bytes(), got);
      verdict = verdict.and(compare(want, got.flip(), segment.at() + done));
      done += want.remaining() / type.bytes();
    }
    return verdict;
  }

  private CheckResult compare(ByteBuffer want, ByteBuffer got, long index) {
    int mismatch = want.mismatch(got);
    if (mismatch < 0) {
      return CheckResult.RIGHT;
    }
    long wrong = 0;
    String first = "";
    int size = type.bytes();
    for (int at = mismatch / size * size; at < want.limit(); at += size) {
      if (!close(codec.bits(want, at), codec.bits(got, at))) {
        if (wrong == 0) {
          first =
              "element %d is %s, expected %s"
                  .formatted(index + at / size, codec.text(got, at), codec.text(want, at));
        }
        wrong++;
      }
    }
    return new CheckResult(wrong, 0, first);
  }

  private boolean close(long want, long got) {
    long tolerance = op == RedOp.AVG && type.isFloatingPoint() ? 2 : 0;
    return want == got || (tolerance > 0 && codec.steps(want, got) <= tolerance);
  }

  private Pattern pattern(int source) {
    return patterns.computeIfAbsent(source, key -> Pattern.of(type, reach, elements(key)));
  }

  private Pattern.Source elements(int source) {
    boolean combined = source == Segment.COMBINED;
    if (type.isFloatingPoint()) {
      return combined
          ? (buffer, at, index) -> codec.putDouble(buffer, at, combination.floating(index))
          : (buffer, at, index) -> codec.putDouble(buffer, at, values.floating(source, index));
    }
    return combined
        ? (buffer, at, index) -> codec.putLong(buffer, at, combination.integer(index))
        : (buffer, at, index) -> codec.putLong(buffer, at, values.integer(source, index));
  }
}
