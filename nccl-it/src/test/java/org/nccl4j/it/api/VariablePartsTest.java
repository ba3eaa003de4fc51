package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;

/** On the host device. */
@Timeout(600)
class VariablePartsTest extends VariableParts {
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  @Override
  List<Device> devices() {
    return Collections.nCopies(3, Devices.host());
  }

  @Override
  int rounds() {
    return 40;
  }

  @Override
  int mostElements() {
    return 5000;
  }

  @Test
  void aHundredThousandChangingCountsHoldNoMoreAndMoreMemory() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      exchange(ranks, new Calls(0, 1_000, 1));
      long before = held();
      exchange(ranks, new Calls(1_000, 101_000, 1));
      long most = before + (2 << 20);
      long end = System.nanoTime() + PATIENCE_NANOS;
      long after;
      do {
        after = held();
      } while (after >= most && System.nanoTime() < end);
      assertTrue(after < most, before + " bytes became " + after);
    }
  }

  /** Bytes of the heap that are reachable, as well as a collection tells, and of direct buffers. */
  private static long held() {
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
        + ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
            .mapToLong(BufferPoolMXBean::getMemoryUsed)
            .sum();
  }
}
