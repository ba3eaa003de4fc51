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

  private static final CopyTimes OTHERS = new CopyTimes(TIMES.twice(), TIMES.single());

  /** Remembers what it is to keep, and has it measured again if it is due. */
  private static final class Kept implements CopyTimes.Store {
    final List<CopyTimes> kept = new ArrayList<>();
    boolean due;

    @Override
    public Optional<CopyTimes.Kept> find() {
      return kept.stream().findFirst().map(times -> new CopyTimes.Kept(times, due));
    }

    @Override
    public CopyTimes keep(CopyTimes measured) {
      kept.add(measured);
      return kept.stream().reduce(CopyTimes::least).orElseThrow();
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
    assertEquals(TIMES, ProcessCopyProbe.find(store, () -> OTHERS));
    assertEquals(List.of(TIMES), store.kept);
  }

  @Test
  void timesThatAreDueAreMeasuredAgain() {
    Kept store = new Kept();
    store.kept.add(OTHERS);
    store.due = true;
    CopyTimes least = new CopyTimes(TIMES.single(), TIMES.single());
    assertEquals(least, ProcessCopyProbe.find(store, () -> TIMES));
    assertEquals(List.of(OTHERS, TIMES), store.kept);
  }

  @Test
  void timesThatAreDueCountWhereTheMeasurementFails() {
    Kept store = new Kept();
    store.kept.add(OTHERS);
    store.due = true;
    assertEquals(OTHERS, ProcessCopyProbe.find(store, () -> CopyTimes.NONE));
    assertEquals(List.of(OTHERS), store.kept);
  }

  @Test
  void aMeasurementThatFailedIsNotKept() {
    Kept store = new Kept();
    assertEquals(CopyTimes.NONE, ProcessCopyProbe.find(store, () -> CopyTimes.NONE));
    assertEquals(List.of(), store.kept);
  }
}
