package org.nccl4j.device.host.reduce;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Method;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;

/** Reductions that have met their windows allocate nothing, compiled or not. */
class ReductionAllocationTest {
  private static final int CALLS = 400;
  private static final int ROUNDS = 30;

  @ParameterizedTest
  @EnumSource
  void allocatesNothing(DataType type) throws Exception {
    HostMemory a = Elements.allocate(1 << 16);
    HostMemory b = Elements.allocate(1 << 16);
    for (RedOp op : RedOp.values()) {
      Reduction reduction = Reductions.of(type, op, 3);
      for (int count : new int[] {1, 5, 100, 3000}) {
        use(reduction, a, b, count);
        // The least of some: the JVM allocates for itself now and then, such as for reflection.
        long quiet = Long.MAX_VALUE;
        long used = Long.MAX_VALUE;
        for (int round = 0; round == 0 || round < ROUNDS && used != quiet; round++) {
          quiet = Math.min(quiet, allocated(() -> {}));
          used = Math.min(used, allocated(() -> use(reduction, a, b, count)));
        }
        assertEquals(quiet, used, type + " " + op + " x " + count);
      }
    }
    a.close();
    b.close();
  }

  private static void use(Reduction reduction, HostMemory a, HostMemory b, int count) {
    for (int i = 0; i < CALLS; i++) {
      reduction.prepare(a, 1, b, 2, count);
      reduction.reduce(a, 3, b, 8, b, 8, count);
      reduction.finish(b, 8, count);
    }
  }

  /** Bytes that this thread allocates; by reflection, as the module does not require the bean. */
  private static long allocated(Runnable work) throws Exception {
    Object bean =
        Class.forName("java.lang.management.ManagementFactory")
            .getMethod("getThreadMXBean")
            .invoke(null);
    Method bytes =
        Class.forName("com.sun.management.ThreadMXBean")
            .getMethod("getThreadAllocatedBytes", long.class);
    @SuppressWarnings("deprecation")
    long thread = Thread.currentThread().getId();
    long before = (long) bytes.invoke(bean, thread);
    work.run();
    return (long) bytes.invoke(bean, thread) - before;
  }
}
