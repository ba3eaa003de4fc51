package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;

/** Buffers that are not simply allocated: wrapped, and larger than a byte buffer can be. */
@Timeout(600)
class BufferTest {
  @Test
  void aDirectBufferIsUsedInPlace() {
    ByteBuffer direct = ByteBuffer.allocateDirect(64).order(ByteOrder.nativeOrder());
    direct.position(16);
    direct.putFloat(16, 3f);
    try (Communicator comm = Communicator.initAll(List.of(Devices.host())).get(0);
        DeviceStream stream = Devices.host().createStream();
        DeviceMemory from = Devices.wrap(direct);
        DeviceMemory to = Devices.host().allocate(48)) {
      assertEquals(48, from.size());
      comm.allReduce(from, to, 12, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      assertEquals(3f, Ranks.floats(to)[0]);
    }
  }

  @Test
  void aHeapBufferIsRefused() {
    assertThrows(InvalidArgumentException.class, () -> Devices.wrap(ByteBuffer.allocate(8)));
  }

  @Test
  void aViewSharesTheBytesOfItsPart() {
    try (DeviceMemory memory = Devices.host().allocate(64)) {
      ByteBuffer view = Devices.view(memory, 16, 32);
      assertEquals(32, view.capacity());
      assertEquals(ByteOrder.nativeOrder(), view.order());
      view.putInt(4, 7);
      ByteBuffer out = ByteBuffer.allocate(4).order(ByteOrder.nativeOrder());
      memory.read(20, out);
      assertEquals(7, out.getInt(0));
      assertThrows(InvalidArgumentException.class, () -> Devices.view(memory, 33, 32));
      assertThrows(InvalidArgumentException.class, () -> Devices.view(null, 0, 1));
    }
  }

  @Test
  void moreThanTheProcessHasIsRefused() {
    try (DeviceMemory memory = Devices.host().allocate(64)) {
      for (long bytes : new long[] {1L << 46, 1L << 60, Long.MAX_VALUE - memory.address()}) {
        InvalidArgumentException e =
            assertThrows(
                InvalidArgumentException.class, () -> Devices.host().wrap(memory.address(), bytes));
        assertTrue(e.getMessage().contains("cannot read the last"), e.getMessage());
      }
    }
  }

  @Test
  void memoryBeyondTwoGigabytes() {
    long bytes = (3L << 30) + 5;
    try (Communicator comm = Communicator.initAll(List.of(Devices.host())).get(0);
        DeviceStream stream = Devices.host().createStream();
        DeviceMemory memory = Devices.host().allocate(bytes);
        DeviceMemory end = memory.slice(bytes - 4, 4);
        DeviceMemory copy = Devices.host().allocate(4)) {
      memory.write(bytes - 4, ByteBuffer.wrap(new byte[] {1, 2, 3, 4}));
      comm.allReduce(end, copy, 4, DataType.INT8, RedOp.SUM, stream);
      stream.synchronize();
      ByteBuffer out = ByteBuffer.allocate(4);
      copy.read(0, out);
      assertEquals(ByteBuffer.wrap(new byte[] {1, 2, 3, 4}), out.flip());
    }
  }
}
