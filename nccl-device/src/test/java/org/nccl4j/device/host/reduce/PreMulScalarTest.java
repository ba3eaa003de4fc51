package org.nccl4j.device.host.reduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;

/** Scalars of integers are exact, and refused where the type has no such number. */
final class PreMulScalarTest {
  /** The product of an element and an operator's scalar. */
  private static long product(long element, ReductionOperator operator) {
    ByteBuffer bytes = ByteBuffer.allocate(8).order(ByteOrder.nativeOrder()).putLong(0, element);
    try (DeviceMemory data = HostDevice.instance().allocate(8)) {
      data.write(0, bytes);
      HostMemory host = HostMemory.of(data);
      Reductions.of(operator.type(), operator).prepare(host, 0, host, 0, 1);
      data.read(0, bytes.clear());
    }
    return bytes.getLong(0);
  }

  @ParameterizedTest
  @CsvSource({
    "INT64, 9007199254740993",
    "INT64, -9223372036854775808",
    "INT64, 9223372036854775807",
    "UINT64, -1",
    "UINT64, -9223372036854775807",
    "UINT64, 9007199254740993",
  })
  void wholeNumbersAreExact(DataType type, long scalar) {
    assertEquals(3 * scalar, product(3, ReductionOperator.preMulSum(type, scalar)));
  }

  @Test
  void largeUnsignedNumbersAreNotCut() {
    ReductionOperator large = ReductionOperator.preMulSum(DataType.UINT64, 1e19);
    assertEquals("10000000000000000000", Long.toUnsignedString(product(1, large)));
    ReductionOperator fraction = ReductionOperator.preMulSum(DataType.INT64, -2.9);
    assertEquals(-2, product(1, fraction));
  }

  @ParameterizedTest
  @CsvSource({
    "INT8, 128",
    "INT8, -129",
    "UINT8, 256",
    "UINT8, -1",
    "INT32, 2147483648",
    "UINT32, -1",
    "UINT32, 4294967296",
    "INT64, 0x1p63",
    "INT64, -0x1.0000000000001p63",
    "UINT64, 0x1p64",
    "UINT64, -1",
    "INT32, NaN",
    "INT64, Infinity",
  })
  void numbersThatTheTypeDoesNotHaveAreRefused(DataType type, String scalar) {
    InvalidArgumentException error =
        assertThrows(
            InvalidArgumentException.class,
            () -> ReductionOperator.preMulSum(type, Double.parseDouble(scalar)));
    assertEquals(ErrorId.TYPE, error.id());
    assertTrue(error.problem().contains(type.label()), error.problem());
  }

  @ParameterizedTest
  @CsvSource({"INT8, 128", "UINT8, -1", "INT32, -2147483649", "UINT32, 4294967296"})
  void wholeNumbersThatTheTypeDoesNotHaveAreRefused(DataType type, long scalar) {
    assertThrows(InvalidArgumentException.class, () -> ReductionOperator.preMulSum(type, scalar));
  }
}
