package org.nccl4j.device.host.reduce;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;

/** All pairs of float8, and all quotients. */
class Float8PairsTest {
  @ParameterizedTest
  @EnumSource(names = {"FLOAT8_E4M3", "FLOAT8_E5M2"})
  void everyPair(DataType type) {
    Oracle oracle = new Oracle(type);
    HostMemory memory = Elements.allocate(3 << 16);
    for (RedOp op : RedOp.values()) {
      for (int pair = 0; pair < 1 << 16; pair++) {
        Elements.put(memory, pair, type, pair >> 8);
        Elements.put(memory, (1 << 16) + pair, type, pair & 0xff);
      }
      Reductions.of(type, op, 2).reduce(memory, 0, memory, 1 << 16, memory, 2 << 16, 1 << 16);
      for (int pair = 0; pair < 1 << 16; pair++) {
        long expected = oracle.combine(op, pair >> 8, pair & 0xff);
        long actual = Elements.get(memory, (2 << 16) + pair, type);
        String where = type + " " + op + " " + Integer.toHexString(pair);
        assertTrue(oracle.accepts(expected, actual), where);
      }
    }
    memory.close();
  }

  @ParameterizedTest
  @EnumSource(names = {"FLOAT8_E4M3", "FLOAT8_E5M2"})
  void everyQuotient(DataType type) {
    Oracle oracle = new Oracle(type);
    HostMemory memory = Elements.allocate(512);
    for (int bits = 0; bits < 256; bits++) {
      Elements.put(memory, bits, type, bits);
    }
    for (int ranks = 2; ranks <= 64; ranks++) {
      Reductions.of(type, RedOp.AVG, ranks).prepare(memory, 0, memory, 256, 256);
      for (int bits = 0; bits < 256; bits++) {
        long actual = Elements.get(memory, 256 + bits, type);
        assertTrue(oracle.accepts(oracle.divide(bits, ranks), actual), type + " / " + ranks);
      }
    }
    memory.close();
  }
}
