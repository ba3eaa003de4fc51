package org.nccl4j.api;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.exchange.ExpertMessages;
import org.nccl4j.device.DataType;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.kernel.ExpertSizes;

/** The largest sizes of an exchange with experts. */
class ExpertConfigTest {
  private static ExpertConfig config(int maxTokens, int topK) {
    return new ExpertConfig(maxTokens, 4, topK, 64, DataType.FLOAT32, /* fp8= */ false);
  }

  @Test
  void moreRowsThanListsHavePlaceForAreRefused() {
    assertDoesNotThrow(() -> config(1 << 26, 1).check(1));
    InvalidArgumentException e =
        assertThrows(InvalidArgumentException.class, () -> config(1 << 26, 2).check(1));
    assertTrue(e.remedy().endsWith("at most 67108864 rows"), e.remedy());
    assertThrows(InvalidArgumentException.class, () -> config(1 << 24, 4).check(2));
  }

  /** The bytes of all lists are an int. */
  @Test
  void theListsOfTheLargestSizesAreBelow2GiB() {
    for (int nRanks : new int[] {1, 2, 8, 64}) {
      for (int topK : new int[] {1, 2, 64}) {
        ExpertConfig config = config((1 << 26) / nRanks / topK, topK);
        assertDoesNotThrow(() -> config.check(nRanks));
        ExpertSizes sizes = config.sizes(nRanks);
        for (int perHost = 1; perHost <= nRanks; perHost *= 2) {
          int ranks = perHost;
          List<List<Integer>> hosts =
              IntStream.range(0, nRanks / ranks)
                  .mapToObj(h -> IntStream.range(h * ranks, (h + 1) * ranks).boxed().toList())
                  .toList();
          for (boolean sumsByHost : new boolean[] {false, true}) {
            long bytes = ExpertMessages.listBytes(sizes, 0, hosts, sumsByHost);
            assertTrue(bytes <= Integer.MAX_VALUE, bytes + " for " + config);
          }
        }
      }
    }
  }
}
