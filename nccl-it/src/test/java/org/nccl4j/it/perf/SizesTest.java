package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.InvalidArgumentException;

final class SizesTest {
  @ParameterizedTest
  @CsvSource({
    "0, 0, 0",
    "8, 8, 8",
    "1k, 1024, 1K",
    "64M, 67108864, 64M",
    "1.5G, 1610612736, 1536M",
    "0.5K, 512, 512",
    "3GB, 3221225472, 3G",
    "1000, 1000, 1000"
  })
  void sizeIsUnderstood(String text, long bytes, String shown) {
    assertEquals(bytes, ByteSize.parse(text).bytes());
    assertEquals(shown, ByteSize.parse(text).toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "K", "-8", "8Q", "1e6", "0.3", "8 8", "2000G", "0x10", "٣"})
  void malformedSizeIsRefused(String text) {
    InvalidArgumentException e =
        assertThrows(InvalidArgumentException.class, () -> ByteSize.parse(text));
    assertTrue(e.problem().contains("'" + text + "'"), e.problem());
  }

  @Test
  void sizesGrowByFactor() {
    assertEquals(List.of(8L, 32L, 128L), new SizeRange(8, 200, 0, 4).sizes());
  }

  @Test
  void sizesGrowByStep() {
    assertEquals(List.of(8L, 18L, 28L), new SizeRange(8, 28, 10, 1).sizes());
  }

  @Test
  void zeroIsASize() {
    assertEquals(List.of(0L, 1L, 2L, 4L), new SizeRange(0, 4, 0, 2).sizes());
  }

  @Test
  void oneSizeNeedsNoStep() {
    assertEquals(List.of(8L), new SizeRange(8, 8, 0, 1).sizes());
  }

  @ParameterizedTest
  @CsvSource({"16, 8, 0, 2", "8, 16, 0, 1", "0, 1000000, 1, 1"})
  void rangeWithoutEndIsRefused(long min, long max, long step, int factor) {
    assertThrows(InvalidArgumentException.class, () -> new SizeRange(min, max, step, factor));
  }

  @ParameterizedTest
  @CsvSource({"0.1, 100000", "1, 15000", "1000, 15", "10000, 7", "200000, 3", "9000000, 3"})
  void repetitionFitsTheTime(double micros, int iterations) {
    Repetition repetition = Repetition.automatic(micros);
    assertEquals(iterations, repetition.iterations());
    assertTrue(repetition.warmup() >= 1);
  }
}
