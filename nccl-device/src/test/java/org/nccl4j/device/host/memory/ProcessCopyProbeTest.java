package org.nccl4j.device.host.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.CopyTimes;

class ProcessCopyProbeTest {
  private static final int NEVER = Integer.MAX_VALUE;
  private static final CopyTimes TIMES =
      new CopyTimes(List.of(1L, 2L, 3L, 4L), List.of(5L, 6L, 7L, 8L));

  /** Remembers what it is to keep. */
  private static final class Kept implements CopyTimes.Store {
    final List<CopyTimes> kept = new ArrayList<>();

    @Override
    public Optional<CopyTimes> find() {
      return kept.stream().findFirst();
    }

    @Override
    public void keep(CopyTimes times) {
      kept.add(times);
    }
  }

  @Test
  void thisMachineIsMeasuredOnce() {
    CopyTimes times = ProcessCopyProbe.times(CopyTimes.Store.NONE);
    assertSame(times, ProcessCopyProbe.times(CopyTimes.Store.NONE));
    int least = times.leastBytes();
    assertTrue(least == NEVER || CopyTimes.SIZES.contains(least), times.toString());
  }

  @Test
  void whatWasKeptIsNotMeasuredAgain() {
    Kept store = new Kept();
    assertEquals(TIMES, ProcessCopyProbe.find(store, () -> TIMES));
    assertEquals(List.of(TIMES), store.kept);
    CopyTimes others = new CopyTimes(TIMES.twice(), TIMES.single());
    assertEquals(TIMES, ProcessCopyProbe.find(store, () -> others));
    assertEquals(List.of(TIMES), store.kept);
  }

  @Test
  void aMeasurementThatFailedIsNotKept() {
    Kept store = new Kept();
    assertEquals(CopyTimes.NONE, ProcessCopyProbe.find(store, () -> CopyTimes.NONE));
    assertEquals(List.of(), store.kept);
  }
}
