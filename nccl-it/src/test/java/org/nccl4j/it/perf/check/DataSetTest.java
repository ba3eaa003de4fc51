package org.nccl4j.it.perf.check;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.workload.Segment;

final class DataSetTest {
  private static final int COUNT = 200_000;

  @ParameterizedTest
  @EnumSource(DataType.class)
  void whatWasSentIsRight(DataType type) {
    DataSet data = new DataSet(type, RedOp.SUM, 3, COUNT, 1);
    try (DeviceMemory memory = Devices.host().allocate((long) COUNT * type.bytes())) {
      data.fillSend(2, memory);
      assertEquals(CheckResult.RIGHT, data.verify(new Segment(0, COUNT, 2, 0), memory));
      assertEquals(CheckResult.RIGHT, data.verify(new Segment(5, COUNT - 5, 2, 5), memory));
    }
  }

  @Test
  void aMisplacedChunkIsWrong() {
    DataSet data = new DataSet(DataType.FLOAT32, RedOp.SUM, 3, COUNT, 1);
    try (DeviceMemory memory = Devices.host().allocate(COUNT * 4L)) {
      data.fillSend(2, memory);
      CheckResult verdict = data.verify(new Segment(0, 65536, 2, 65536), memory);
      assertTrue(verdict.wrong() > 60_000, verdict.toString());
    }
  }

  @Test
  void oneWrongElementIsNamed() {
    DataSet data = new DataSet(DataType.INT32, RedOp.SUM, 2, COUNT, 1);
    try (DeviceMemory memory = Devices.host().allocate(COUNT * 4L)) {
      data.fillSend(0, memory);
      memory.write(4L * 150_001, ByteBuffer.wrap(new byte[] {1, 2, 3, 4}));
      CheckResult verdict = data.verify(new Segment(0, COUNT, 0, 0), memory);
      assertEquals(1, verdict.wrong());
      assertTrue(
          verdict.first().startsWith("element 150001 is 67305985, expected"), verdict.first());
    }
  }

  @Test
  void poisonIsNoResult() {
    for (DataType type : DataType.values()) {
      DataSet data = new DataSet(type, RedOp.MAX, 2, 1000, 5);
      try (DeviceMemory memory = Devices.host().allocate(1000L * type.bytes())) {
        DataSet.poison(memory);
        assertEquals(0, DataSet.damage(memory));
        CheckResult verdict = data.verify(new Segment(0, 1000, Segment.COMBINED, 0), memory);
        assertTrue(verdict.wrong() > 900, type + " " + verdict);
      }
    }
  }

  @Test
  void averagesMayBeTwoStepsOff() {
    DataSet data = new DataSet(DataType.FLOAT16, RedOp.AVG, 3, 100, 5);
    Combination combination =
        new Combination(
            DataType.FLOAT16, RedOp.AVG, 3, new TestValues(DataType.FLOAT16, RedOp.AVG, 3, 5));
    for (int off = 0; off <= 3; off++) {
      try (DeviceMemory memory = Devices.host().allocate(200)) {
        ByteBuffer results = ByteBuffer.allocate(200).order(ByteOrder.nativeOrder());
        for (int i = 0; i < 100; i++) {
          double value = combination.floating(i);
          int bits = FloatFormat.of(DataType.FLOAT16).magnitudeBits(Math.abs(value)) + off;
          results.putShort(2 * i, (short) (value < 0 ? bits | 0x8000 : bits));
        }
        memory.write(0, results);
        CheckResult verdict = data.verify(new Segment(0, 100, Segment.COMBINED, 0), memory);
        assertEquals(off > 2 ? 100 : 0, verdict.wrong());
      }
    }
  }
}
