package org.nccl4j.device.host.memory;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(600)
class ProcessorsTest {
  @Test
  void aThreadLeavesAProcessorForGood() throws Exception {
    int here = Processors.current();
    assumeTrue(here >= 0 && Runtime.getRuntime().availableProcessors() > 1);
    int[] seen = new int[2];
    Thread thread =
        new Thread(
            () -> {
              seen[0] = Processors.leave(here) ? 1 : 0;
              seen[1] = Processors.current();
            });
    thread.start();
    thread.join();
    assumeTrue(seen[0] == 1, "threads cannot be bound here");
    assertNotEquals(here, seen[1]);
  }

  @Test
  void nobodyLeavesAnUnknownProcessor() {
    assertFalse(Processors.leave(-1));
  }
}
