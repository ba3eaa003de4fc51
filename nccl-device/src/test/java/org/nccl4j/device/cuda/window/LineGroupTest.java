package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.DirectRanks;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.LayoutTest;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicator.GroupLaunch;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Operations of groups that one kernel runs, against the recording driver. */
class LineGroupTest extends AgainstFakeCuda {
  private static final int N = 2;
  private static final String LAUNCH = "cuLaunchKernelEx(";
  private static final LaunchOptions APART =
      new LaunchOptions(0, false, false, Integer.MAX_VALUE, Set.of(), "", false);

  private GpuRanks ranks;
  private DirectRanks windows;
  private KernelCommunicator kernels;
  private GroupLaunch group;
  private DeviceStream stream;
  private DeviceMemory send;
  private DeviceMemory recv;

  @BeforeEach
  void create() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(N, Duration.ofSeconds(3));
    windows = new DirectRanks(ranks, 1 << 20);
    kernels = ranks.communicators().get(0);
    group = kernels.groupLaunch();
    stream = ranks.streams.get(0);
    send = windows.send.get(0);
    recv = windows.recv.get(0);
  }

  @AfterEach
  void close() {
    if (ranks != null) {
      windows.close();
      ranks.close();
    }
  }

  private static WindowWork work(Operation operation, DataType type, RedOp op, int count) {
    return new WindowWork(
        operation, Algorithm.DIRECT_LL, type, op, 0, count, null, null, /* blocks= */ 0);
  }

  private static WindowWork sum(int count) {
    return work(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, count);
  }

  /** Adds a sum on the 4 KiB of a number. */
  private boolean add(int count, int number) {
    return add(count, number, stream);
  }

  private boolean add(int count, int number, DeviceStream into) {
    int bytes = Math.max(4096, 4 * count);
    return group.add(
        kernels.prepare(sum(count)),
        send.slice(4096L * number, bytes),
        recv.slice(4096L * number, bytes),
        into);
  }

  private int launches() {
    return fake.fakeRecord().split(LAUNCH.replace("(", "\\("), -1).length - 1;
  }

  private Offheap launched() {
    assertEquals("nccl4j_direct_ll_group", fake.fakeLaunched());
    Offheap arguments = new Offheap(DirectGroupArguments.SIZE);
    fake.fakeAllArguments(arguments.address(), DirectGroupArguments.SIZE);
    return arguments;
  }

  private static int at(int work, int field) {
    return DirectGroupArguments.WORKS + work * DirectGroupArguments.WORK_SIZE + field;
  }

  @Test
  void argumentsLieWhereTheHeaderSays() throws Exception {
    StringBuilder body = new StringBuilder();
    StringBuilder ours = new StringBuilder();
    Object[][] fields = {
      {"nParts", DirectGroupArguments.N_PARTS},
      {"ends", DirectGroupArguments.ENDS},
      {"workOf", DirectGroupArguments.WORK_OF},
      {"works", DirectGroupArguments.WORKS},
      {"works[0].send", at(0, DirectGroupArguments.WORK_SEND)},
      {"works[0].recv", at(0, DirectGroupArguments.WORK_RECV)},
      {"works[0].bytes", at(0, DirectGroupArguments.WORK_BYTES)},
      {"works[0].lines", at(0, DirectGroupArguments.WORK_LINES)},
      {"works[0].operation", at(0, DirectGroupArguments.WORK_OPERATION)},
      {"works[0].root", at(0, DirectGroupArguments.WORK_ROOT)},
      {"works[0].op", at(0, DirectGroupArguments.WORK_OP)},
      {"works[0].signature", at(0, DirectGroupArguments.WORK_SIGNATURE)},
      {"works[0].firstPart", at(0, DirectGroupArguments.WORK_FIRST_PART)},
      {"works[0].nParts", at(0, DirectGroupArguments.WORK_N_PARTS)},
      {"works[1]", at(1, 0)},
      {"works[%d]".formatted(DirectGroupArguments.MOST_WORKS), DirectGroupArguments.SIZE}
    };
    String structure = "nccl4jDirectGroupArguments";
    for (Object[] field : fields) {
      body.append("printf(\"%%d \", (int)offsetof(%s, %s));\n".formatted(structure, field[0]));
      ours.append(field[1]).append(' ');
    }
    body.append("printf(\"%%d\", (int)sizeof(%s));\n".formatted(structure));
    ours.append(DirectGroupArguments.SIZE);
    assertEquals(ours.toString(), LayoutTest.run("direct_group_layout.h", body.toString()).strip());
    assertTrue(DirectGroupArguments.SIZE <= 4096, "what a launch takes");
    assertTrue(DirectGroupArguments.MOST_WORKS <= DirectLayout.BLOCKS, "a part for each");
  }

  /** The buffers that an operation does not use need not be there. */
  @Test
  void onlyTheRootHasBothBuffers() {
    kernels = ranks.communicators().get(1);
    group = kernels.groupLaunch();
    recv = windows.recv.get(1);
    send = windows.send.get(1);
    DeviceStream own = ranks.streams.get(1);
    assertTrue(
        group.add(
            kernels.prepare(work(Operation.REDUCE, DataType.FLOAT32, RedOp.SUM, 10)),
            send.slice(0, 40),
            null,
            own));
    assertTrue(
        group.add(
            kernels.prepare(work(Operation.REDUCE, DataType.FLOAT32, RedOp.MAX, 10)),
            send.slice(40, 40),
            null,
            own));
    group.launch(0, 2);
    group.clear();
    assertTrue(
        group.add(
            kernels.prepare(work(Operation.BROADCAST, DataType.FLOAT32, RedOp.SUM, 10)),
            null,
            recv.slice(0, 40),
            own));
    group.launch(0, 1);
    group.clear();
    Offheap got = launched();
    assertEquals(0, got.getLong(at(0, DirectGroupArguments.WORK_SEND)));
    assertEquals(recv.address(), got.getLong(at(0, DirectGroupArguments.WORK_RECV)));
  }

  @Test
  void operationsShareAKernelAndAHalf() {
    assertTrue(add(3, 0));
    assertTrue(add(1000, 1));
    assertTrue(
        group.add(
            kernels.prepare(work(Operation.REDUCE_SCATTER, DataType.FLOAT32, RedOp.MAX, 500)),
            send.slice(8192, 4000),
            recv.slice(8192, 2000),
            stream));
    assertEquals(3, group.size());
    long before = kernels.nextLaunch();
    fake.fakeReset();
    group.launch(0, 3);
    group.clear();
    assertEquals(0, group.size());
    assertEquals(before + 3, kernels.nextLaunch());
    assertEquals(1, launches());
    assertTrue(fake.fakeRecord().contains(LAUNCH + "3,1,1,512,1,1,0,"), fake.fakeRecord());
    Offheap got = launched();
    assertEquals(3, got.getInt(DirectGroupArguments.N_PARTS));
    assertEquals(1, got.getInt(DirectGroupArguments.ENDS));
    assertEquals(send.address() + 4096, got.getLong(at(1, DirectGroupArguments.WORK_SEND)));
    assertEquals(recv.address() + 4096, got.getLong(at(1, DirectGroupArguments.WORK_RECV)));
    assertEquals(4000, got.getLong(at(1, DirectGroupArguments.WORK_BYTES)));
    assertEquals(0, got.getLong(at(0, DirectGroupArguments.WORK_LINES)));
    assertEquals(128, got.getLong(at(1, DirectGroupArguments.WORK_LINES)));
    assertEquals(128 + 8064, got.getLong(at(2, DirectGroupArguments.WORK_LINES)));
    assertEquals(
        Operation.REDUCE_SCATTER.ordinal(),
        got.bytes().getShort(at(2, DirectGroupArguments.WORK_OPERATION)));
    assertEquals(RedOp.MAX.ordinal(), got.getInt(at(2, DirectGroupArguments.WORK_OP)));
    assertEquals(sum(1000).signature(), got.getInt(at(1, DirectGroupArguments.WORK_SIGNATURE)));
    for (int part = 0; part < 3; part++) {
      assertEquals(part, got.bytes().get(DirectGroupArguments.WORK_OF + part));
      assertEquals(part, got.bytes().getShort(at(part, DirectGroupArguments.WORK_FIRST_PART)));
      assertEquals(1, got.bytes().getShort(at(part, DirectGroupArguments.WORK_N_PARTS)));
    }
  }

  /** Facts that all ranks know decide. */
  @Test
  void whatAKernelCannotRunTogetherIsRefused() {
    assertFalse(
        group.add(kernels.prepare(WORK), send.slice(0, 4000), recv.slice(0, 4000), stream),
        "goes over connections");
    assertEquals(0, group.size());
    assertTrue(add(100, 0));
    assertFalse(group.add(kernels.prepare(WORK), send.slice(0, 4000), recv.slice(0, 4000), stream));
    assertFalse(
        group.add(
            kernels.prepare(work(Operation.ALL_REDUCE, DataType.INT32, RedOp.SUM, 100)),
            send,
            recv,
            stream),
        "another type");
    assertFalse(
        group.add(
            kernels.prepare(work(Operation.ALL_GATHER, DataType.FLOAT32, RedOp.SUM, 100)),
            send,
            recv,
            stream),
        "another kernel");
    assertEquals(1, group.size());
    int most = (int) (CudaDevice.lineData(N, Algorithm.DIRECT_LL) / 4);
    assertFalse(add(most, 1), "more lines than a half has");
    assertTrue(add(most - 112, 1), "just as many");
    assertFalse(add(1, 150));
    group.clear();
    for (int number = 0; number < DirectGroupArguments.MOST_WORKS; number++) {
      assertTrue(add(1, number));
    }
    assertFalse(add(1, 100), "more than a kernel has");
    group.clear();
    assertTrue(add(most, 0), "as many lines as a half has");
    group.clear();
  }

  /** Blocks are divided where there are too few for all. */
  @Test
  void manyOperationsHaveNoMoreBlocksThanThereAreBarriers() {
    int large = (int) (CudaDevice.lineData(N, Algorithm.DIRECT_LL) / 4 / 4);
    for (int number = 0; number < 40; number++) {
      assertTrue(add(number < 3 ? large : 10, number < 3 ? 32 * number : 100 + number));
    }
    group.launch(0, 40);
    group.clear();
    Offheap got = launched();
    int parts = got.getInt(DirectGroupArguments.N_PARTS);
    assertTrue(parts <= DirectLayout.BLOCKS, parts + " parts");
    int next = 0;
    for (int work = 0; work < 40; work++) {
      assertEquals(next, got.bytes().getShort(at(work, DirectGroupArguments.WORK_FIRST_PART)));
      int own = got.bytes().getShort(at(work, DirectGroupArguments.WORK_N_PARTS));
      assertTrue(own >= 1);
      assertEquals(work, got.bytes().get(DirectGroupArguments.WORK_OF + next));
      next += own;
    }
    assertEquals(parts, next);
    assertTrue(fake.fakeRecord().contains(LAUNCH + parts + ",1,1,512,"), fake.fakeRecord());
  }

  /** The most blocks of a kernel hold for one of several operations too. */
  @Test
  void aLimitOfBlocksHolds() {
    for (int number = 0; number < 5; number++) {
      WindowWork limited =
          new WindowWork(
              Operation.ALL_REDUCE,
              Algorithm.DIRECT_LL,
              DataType.FLOAT32,
              RedOp.SUM,
              0,
              2048,
              null,
              null,
              0,
              /* mostBlocks= */ 2,
              /* apart= */ true);
      DeviceMemory from = send.slice(8192L * number, 8192);
      assertTrue(
          group.add(kernels.prepare(limited), from, recv.slice(8192L * number, 8192), stream));
    }
    fake.fakeReset();
    group.launch(0, 5);
    group.clear();
    assertTrue(fake.fakeRecord().contains(LAUNCH + "2,1,1,512,"), fake.fakeRecord());
    assertEquals(10, launched().getInt(DirectGroupArguments.N_PARTS));
  }

  /** Local facts, which other ranks need not share: then only the last kernel ends the number. */
  @Test
  void streamsAndSharedBuffersDivideAGroup() {
    DeviceStream other = ranks.devices.get(0).createStream();
    assertTrue(add(10, 0));
    assertTrue(add(10, 1, other));
    assertTrue(add(10, 2, other));
    fake.fakeReset();
    group.launch(0, 1);
    assertEquals(0, launched().getInt(DirectGroupArguments.ENDS));
    assertEquals(1, launches());
    group.launch(1, 3);
    assertEquals(1, launched().getInt(DirectGroupArguments.ENDS));
    assertEquals(2, launched().getInt(DirectGroupArguments.N_PARTS));
    assertEquals(128, launched().getLong(at(0, DirectGroupArguments.WORK_LINES)));
    group.clear();
    assertEquals(2, launches());

    assertTrue(add(10, 0));
    assertTrue(add(10, 1));
    // Reads what the first writes.
    assertTrue(group.add(kernels.prepare(sum(9)), recv.slice(4, 36), recv.slice(9000, 36), stream));
    assertTrue(add(10, 3));
    // Writes what the one before reads.
    assertTrue(
        group.add(
            kernels.prepare(sum(9)), send.slice(8192, 36), send.slice(3 * 4096 + 36, 36), stream));
    fake.fakeReset();
    group.launch(0, 5);
    group.clear();
    assertEquals(3, launches());
    assertEquals(1, launched().getInt(DirectGroupArguments.N_PARTS));

    // Sharing what is only read divides nothing, nor does being in place.
    assertTrue(group.add(kernels.prepare(sum(9)), send, recv.slice(0, 36), stream));
    assertTrue(group.add(kernels.prepare(sum(9)), send, recv.slice(36, 36), stream));
    assertTrue(group.add(kernels.prepare(sum(9)), recv.slice(72, 36), recv.slice(72, 36), stream));
    fake.fakeReset();
    group.launch(0, 3);
    group.clear();
    assertEquals(1, launches());
    other.close();
  }

  /** The same kernel with the same form is not prepared again, in a capture either. */
  @Test
  void groupsAreLaunchedAgainAndCaptured() {
    for (int time = 0; time < 3; time++) {
      fake.fakeReset();
      if (time == 2) {
        ranks.streams.get(0).beginCapture();
      }
      for (int number = 0; number < 10; number++) {
        assertTrue(add(10, number));
      }
      group.launch(0, 10);
      group.clear();
      if (time == 2) {
        ranks.streams.get(0).endCapture().close();
      }
      assertEquals(1, launches());
    }
  }

  @Test
  void freedMemoryIsRefused() {
    DeviceMemory freed = ranks.devices.get(0).allocate(64);
    assertTrue(add(10, 0));
    assertTrue(group.add(kernels.prepare(sum(16)), send.slice(4096, 64), freed, stream));
    freed.close();
    fake.fakeReset();
    assertThrows(InvalidUsageException.class, () -> group.launch(0, 2));
    group.clear();
    assertEquals(0, launches());
  }

  @Test
  void aSettingTurnsItOff() {
    try (GpuRanks apart = new GpuRanks(N, APART, Duration.ofSeconds(3))) {
      assertNull(apart.communicators().get(0).groupLaunch());
    }
  }
}
