package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

class PlanCacheTest {
  private static final long SHAPE =
      CallShape.of(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0);

  /** Counts whose hashes have one place. */
  private static final List<Long> COUNTS =
      LongStream.range(0, 1 << 20)
          .filter(count -> CallShape.place(CallShape.hash(SHAPE, count), 10) == 7)
          .limit(3)
          .boxed()
          .toList();

  private final PlanCache cache = new PlanCache();
  private final List<KernelPlan> discarded = new ArrayList<>();

  private KernelPlan plan() {
    return new KernelPlan() {
      @Override
      public void discard() {
        discarded.add(this);
      }
    };
  }

  /** Before, a program that calls two such operations by turns made the plan of each call anew. */
  @Test
  void twoShapesOfOnePlaceAreKept() {
    KernelPlan first = cache.put(SHAPE, COUNTS.get(0), plan());
    KernelPlan second = cache.put(SHAPE, COUNTS.get(1), plan());
    assertSame(first, cache.find(SHAPE, COUNTS.get(0)));
    assertSame(second, cache.find(SHAPE, COUNTS.get(1)));
    assertEquals(List.of(), discarded);
    KernelPlan third = cache.put(SHAPE, COUNTS.get(2), plan());
    assertNull(cache.find(SHAPE, COUNTS.get(0)));
    assertSame(second, cache.find(SHAPE, COUNTS.get(1)));
    assertSame(third, cache.find(SHAPE, COUNTS.get(2)));
    assertEquals(List.of(first), discarded);
  }

  @Test
  void decisionsOfOnePlaceAreKeptBesidePlans() {
    KernelPlan plan = cache.put(SHAPE, COUNTS.get(0), plan());
    List<PlanCache.Entry> decisions = new ArrayList<>();
    for (long count : COUNTS.subList(0, 2)) {
      decisions.add(cache.put(new PlanCache.Entry(SHAPE, count, null, null, false, false, plan())));
    }
    for (int each = 0; each < 2; each++) {
      assertSame(
          decisions.get(each), cache.find(SHAPE, COUNTS.get(each), null, null, false, false));
      assertNull(cache.find(SHAPE, COUNTS.get(each), null, null, false, true));
      assertNull(cache.find(SHAPE, COUNTS.get(each), null, null, true, false));
    }
    assertSame(plan, cache.find(SHAPE, COUNTS.get(0)));
    assertEquals(List.of(), discarded);
  }
}
