package org.nccl4j.device.host.reduce;

import com.kenai.jffi.MemoryIO;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Prints what reductions cost: nanoseconds a call for few elements, GB/s (bytes of one operand) for
 * many. Arguments: types, operators (label, comma-separated), bytes.
 */
public final class ReductionBenchmark {
  private static final int[] FEW = {1, 4, 16, 64};
  private static final long[] MANY = {4 << 10, 64 << 10, 256 << 10, 32 << 20};

  private ReductionBenchmark() {}

  public static void main(String[] arguments) {
    List<String> types = arguments.length > 0 ? List.of(arguments[0].split(",")) : List.of();
    List<String> ops = arguments.length > 1 ? List.of(arguments[1].split(",")) : List.of();
    System.out.printf("%-22s ns:", "");
    Arrays.stream(FEW).forEach(count -> System.out.printf(" %7d", count));
    System.out.print("  GB/s:");
    Arrays.stream(MANY).forEach(bytes -> System.out.printf(" %6dKi", bytes >> 10));
    System.out.println();
    copy();
    for (DataType type : DataType.values()) {
      for (RedOp op : RedOp.values()) {
        if ((types.isEmpty() || types.contains(type.label()))
            && (ops.isEmpty() || ops.contains(op.label()))) {
          measure(type, op);
        }
      }
    }
  }

  /** memcpy, for comparison. */
  private static void copy() {
    System.out.printf("%-22s    ", "copy of memory");
    Arrays.stream(FEW).forEach(count -> System.out.print("        "));
    System.out.print("       ");
    MemoryIO io = MemoryIO.getInstance();
    for (long bytes : MANY) {
      HostMemory a = filled(DataType.FLOAT32, bytes, 1);
      HostMemory b = filled(DataType.FLOAT32, bytes, 2);
      Runnable call = () -> io.copyMemory(a.address(), b.address(), bytes);
      System.out.printf(" %8.2f", bytes / nanoseconds(call));
    }
    System.out.println();
  }

  private static void measure(DataType type, RedOp op) {
    int size = type.bytes();
    Reduction reduction = Reductions.of(type, op, 3);
    System.out.printf("%-22s    ", type.label() + " " + op.label());
    for (int count : FEW) {
      System.out.printf(" %7.1f", time(type, reduction, count, 0));
    }
    System.out.print("       ");
    for (long bytes : MANY) {
      System.out.printf(" %8.2f", bytes / time(type, reduction, (int) (bytes / size), 0));
    }
    System.out.printf("  unaligned %.2f", (64 << 10) / time(type, reduction, (64 << 10) / size, 1));
    if (reduction.hasPrepare() || reduction.hasFinish()) {
      HostMemory memory = filled(type, 64 << 10, 3);
      int count = (64 << 10) / size;
      Runnable call =
          () -> {
            reduction.prepare(memory, 0, memory, 0, count);
            reduction.finish(memory, 0, count);
          };
      System.out.printf("  divide %.2f", (64 << 10) / nanoseconds(call));
      memory.close();
    }
    System.out.println();
  }

  private static double time(DataType type, Reduction reduction, int count, int offset) {
    long bytes = (long) count * type.bytes() + offset;
    HostMemory a = filled(type, bytes, 1);
    HostMemory b = filled(type, bytes, 2);
    HostMemory target = filled(type, bytes, 3);
    double nanoseconds =
        nanoseconds(() -> reduction.reduce(a, offset, b, offset, target, offset, count));
    a.close();
    b.close();
    target.close();
    return nanoseconds;
  }

  /** The median of batches, after a warm-up. */
  private static double nanoseconds(Runnable call) {
    int calls = 1;
    long took = 0;
    while (took < 10_000_000) {
      calls *= 2;
      took = batch(call, calls);
    }
    for (int i = 0; i < 20; i++) {
      batch(call, calls);
    }
    double[] batches = new double[11];
    for (int i = 0; i < batches.length; i++) {
      batches[i] = (double) batch(call, calls) / calls;
    }
    Arrays.sort(batches);
    return batches[batches.length / 2];
  }

  private static long batch(Runnable call, int calls) {
    long begin = System.nanoTime();
    for (int i = 0; i < calls; i++) {
      call.run();
    }
    return System.nanoTime() - begin;
  }

  /** Elements near 1, of both signs. */
  private static HostMemory filled(DataType type, long bytes, long seed) {
    SplittableRandom random = new SplittableRandom(seed);
    HostMemory memory = Elements.allocate(bytes);
    long[] values = Elements.values(type, 4096, random);
    for (long offset = 0; offset + type.bytes() <= bytes; offset += type.bytes()) {
      Elements.put(memory, offset, type, values[31 + 2 * random.nextInt(2000)]);
    }
    return memory;
  }
}
