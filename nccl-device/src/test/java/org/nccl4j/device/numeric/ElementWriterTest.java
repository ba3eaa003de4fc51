package org.nccl4j.device.numeric;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;

class ElementWriterTest {
  /** What was written as an element is read again, whatever is behind it. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void scalarsAreReadAsTheyWereWritten(DataType type) {
    for (int number : new int[] {0, 1, 3, 96}) {
      ByteBuffer element = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.nativeOrder());
      element.putLong(0, -1);
      ElementWriter.put(type, element, (double) number);
      ByteBuffer again = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.nativeOrder());
      again.putLong(0, -1);
      ElementWriter.put(again, ElementWriter.preMulSum(type, element.getLong(0)));
      assertEquals(element, again);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "INT8, -1",
    "INT32, -1",
    "INT64, -1",
    "UINT8, 255",
    "UINT32, 4294967295",
    "UINT64, -1"
  })
  void wholeScalarsHaveTheirSign(DataType type, long expected) {
    assertEquals(expected, ElementWriter.preMulSum(type, -1L).whole());
  }
}
