package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiFunction;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * Memory and streams of GPUs that are closed between a call in a group and the group's end serve
 * it, and are freed after it. Needs a GPU, for large groups two.
 */
@Tag("gpu")
@Timeout(600)
class CloseInGroupGpuTest {
  private static final int COUNT = 64 << 20;
  private static final long BYTES = 4L * COUNT;
  private static final int OPERATIONS = 1100;

  private static ByteBuffer one(float value) {
    return ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder()).putFloat(0, value);
  }

  private static float at(DeviceMemory memory, long index) {
    ByteBuffer element = one(0);
    memory.read(4 * index, element);
    return element.getFloat(0);
  }

  @Test
  void memoryOfAllocate() {
    memoryAndAStream(CudaDevice::allocate);
  }

  @Test
  void memoryOfMemAlloc() {
    memoryAndAStream(CudaDevice::memAlloc);
  }

  /** The driver unmaps memory at once, whatever still uses it. */
  @Test
  void memoryOfMemAllocThatManyCopiesUse() {
    CudaDevice device = Devices.cuda().list().get(0);
    try (Communicator alone = Communicator.initAll(List.of(device)).get(0);
        DeviceMemory out = device.allocate(BYTES);
        DeviceStream stream = device.createStream()) {
      DeviceMemory in = device.memAlloc(BYTES);
      in.write(BYTES - 4, one(7));
      for (int i = 0; i < 100; i++) {
        alone.allReduce(in, out, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
      }
      in.close();
      stream.synchronize();
      assertEquals(7, at(out, COUNT - 1));
    }
  }

  private static void memoryAndAStream(BiFunction<CudaDevice, Long, DeviceMemory> allocate) {
    CudaDevice device = Devices.cuda().list().get(0);
    try (Communicator alone = Communicator.initAll(List.of(device)).get(0);
        DeviceMemory out = device.allocate(BYTES);
        DeviceStream after = device.createStream()) {
      reduceAndClose(alone, allocate.apply(device, BYTES), out, after, 1);
      long free = device.memoryInfo()[0];
      for (int round = 2; round < 5; round++) {
        reduceAndClose(alone, allocate.apply(device, BYTES), out, after, round);
      }
      long deadline = System.nanoTime() + 10_000_000_000L; // a thread of its own frees it
      while (device.memoryInfo()[0] < free - BYTES && System.nanoTime() < deadline) {
        LockSupport.parkNanos(10_000_000);
      }
      assertTrue(device.memoryInfo()[0] >= free - BYTES, "three were closed, one may be missing");
    }
  }

  private static void reduceAndClose(
      Communicator alone, DeviceMemory in, DeviceMemory out, DeviceStream after, float value) {
    in.write(BYTES - 4, one(value));
    DeviceStream closed = alone.device().createStream();
    Group.run(
        () -> {
          alone.allReduce(in, out, COUNT, DataType.FLOAT32, RedOp.SUM, closed);
          in.close();
          closed.close();
        });
    // Behind it, as all operations of a communicator.
    alone.allReduce(out, out, COUNT, DataType.FLOAT32, RedOp.SUM, after);
    after.synchronize();
    assertEquals(value, at(out, COUNT - 1));
  }

  /** The wait ends by what the other rank launches after the call that drops the window. */
  @Test
  void aWindowIsDeregisteredBesideAWait() throws Exception {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    assumeTrue(devices.size() >= 2, "needs two GPUs");
    try (Ranks ranks = new Ranks(Communicator.initAll(devices.subList(0, 2)))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = comm.device().memAlloc(1 << 20)) {
              Window window = comm.registerWindow(memory);
              if (comm.rank() == 0) {
                comm.waitSignal(Map.of(1, 1), stream);
              }
              comm.deregisterWindowOnAllRanks(window);
              if (comm.rank() == 1) {
                comm.signal(0, stream);
              }
              stream.synchronize(Duration.ofSeconds(30));
            }
          });
    }
  }

  /** More parts than one kernel's arguments hold, of two ranks of one thread. */
  @Test
  void largeGroupsOfOneThread() {
    List<Device> devices = List.copyOf(Devices.cuda().list());
    assumeTrue(devices.size() >= 2, "needs two GPUs");
    List<Communicator> ranks = Communicator.initAll(devices.subList(0, 2));
    List<DeviceMemory> buffers = new ArrayList<>();
    List<DeviceStream> streams = new ArrayList<>();
    for (Communicator rank : ranks) {
      DeviceMemory buffer = rank.device().allocate(8L * OPERATIONS);
      for (int i = 0; i < OPERATIONS; i++) {
        buffer.write(4L * i, one(10_000 * rank.rank() + i));
      }
      buffers.add(buffer);
      streams.add(rank.device().createStream());
    }
    Group.run(
        () -> {
          for (int i = 0; i < OPERATIONS; i++) {
            for (int r = 0; r < 2; r++) {
              DeviceMemory buffer = buffers.get(r);
              DeviceStream stream = streams.get(r);
              ranks.get(r).send(buffer.slice(4L * i, 4), 1, DataType.FLOAT32, 1 - r, stream);
              DeviceMemory to = buffer.slice(4L * (OPERATIONS + i), 4);
              ranks.get(r).recv(to, 1, DataType.FLOAT32, 1 - r, stream);
            }
          }
        });
    for (int r = 0; r < 2; r++) {
      streams.get(r).synchronize();
      for (int i = 0; i < OPERATIONS; i++) {
        assertEquals(10_000 * (1 - r) + i, at(buffers.get(r), OPERATIONS + i));
      }
    }
    ranks.forEach(Communicator::close);
    streams.forEach(DeviceStream::close);
    buffers.forEach(DeviceMemory::close);
  }
}
