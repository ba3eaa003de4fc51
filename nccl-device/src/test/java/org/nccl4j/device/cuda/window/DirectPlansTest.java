package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.DirectRanks;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.copy.BesideArguments;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.plan.LayoutTest;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.ShareableMemory;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Direct plans against the recording driver, and their arguments against the kernels' header. */
class DirectPlansTest extends AgainstFakeCuda {
  private static void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  @Test
  void argumentsLieWhereTheHeaderSays() throws Exception {
    LayoutTest.compare(DirectArguments.class, "direct_layout.h", "nccl4jDirectArguments");
    assertEquals(
        "%d %d".formatted(AwaitArguments.AWAITED, AwaitArguments.SIZE),
        LayoutTest.run(
            "direct_layout.h",
            "printf(\"%d %d\", (int)offsetof(nccl4jAwaitArguments, awaited),"
                + " (int)sizeof(nccl4jAwaitArguments));"));
    StringBuilder body = new StringBuilder();
    for (Operation operation : Operation.ofAllRanks()) {
      body.append(
          "if (DIRECT_%s != %d) puts(\"X 0\");\n".formatted(operation, operation.ordinal()));
    }
    body.append(
        "if (NCCL4J_DIRECT_BLOCKS != %d || NCCL4J_DIRECT_RANKS != %d) puts(\"X 0\");\n"
            .formatted(DirectLayout.BLOCKS, DirectLayout.RANKS));
    body.append(
        "if (NCCL4J_DIRECT_GROUP_BYTES != %d || NCCL4J_DIRECT_GROUP_DATA != %d) puts(\"X 0\");\n"
            .formatted(DirectLayout.GROUP_BYTES, DirectLayout.GROUP_DATA));
    assertEquals("", LayoutTest.run("direct_layout.h", body.toString()));
    assertEquals(9, Algorithm.betweenWindows().size());
    assertTrue(DirectLayout.of(4).bytes() < 10 << 20, "device memory of a rank among four");
  }

  @Test
  void argumentsBesideEnginesLieWhereTheHeaderSays() throws Exception {
    String[] names = {
      "engine",
      "engineBytes",
      "chunk",
      "most",
      "head",
      "unit",
      "number",
      "phases",
      "movers",
      "gives"
    };
    List<Integer> ours =
        List.of(
            BesideArguments.ENGINE,
            BesideArguments.ENGINE_BYTES,
            BesideArguments.CHUNK,
            BesideArguments.MOST,
            BesideArguments.HEAD,
            BesideArguments.UNIT,
            BesideArguments.NUMBER,
            BesideArguments.PHASES,
            BesideArguments.MOVERS,
            BesideArguments.GIVES,
            BesideArguments.SIZE);
    StringBuilder body = new StringBuilder();
    for (String name : names) {
      body.append("printf(\"%d, \", (int)offsetof(nccl4jBesideArguments, " + name + "));\n");
    }
    body.append("printf(\"%d\", (int)sizeof(nccl4jBesideArguments));\n");
    assertEquals(ours.toString(), "[" + LayoutTest.run("direct_layout.h", body.toString()) + "]");
  }

  @Test
  void aTwoShotKernelGetsTheViewsOfRankZero() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      var communicator = ranks.communicators().get(1);
      WindowWork work =
          new WindowWork(
              Operation.ALL_REDUCE,
              Algorithm.DIRECT_TWO_SHOT,
              DataType.FLOAT32,
              RedOp.SUM,
              0,
              1000,
              windows.sends.get(1),
              windows.recvs.get(1),
              3);
      DeviceMemory send = windows.send.get(1).slice(64, 4000);
      DeviceMemory recv = windows.recv.get(1).slice(128, 4000);
      communicator.launch(communicator.prepare(work), send, recv, ranks.streams.get(1));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(3,1,1,512,1,1,0,"));
      Offheap arguments = new Offheap(112);
      fake.fakeArguments(arguments.address());
      assertEquals(send.address(), arguments.getLong(KernelLayout.SEND));
      assertEquals(
          windows.sends.get(1).peers().get(0).address() + 64,
          send.address() + arguments.getLong(DirectArguments.SEND_FLAT));
      assertEquals(
          windows.recvs.get(1).peers().get(0).address() + 128,
          recv.address() + arguments.getLong(DirectArguments.RECV_FLAT));
      long stride = arguments.getLong(DirectArguments.STRIDE);
      assertEquals(
          windows.recvs.get(1).peers().get(1).address(),
          windows.recvs.get(1).peers().get(0).address() + stride);
    }
  }

  /** The root of a broadcast waits for nobody, so it has not met the others when it begins. */
  @Test
  void rootedKernelsAdmitTheNextAtTheirEnd() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      for (Algorithm algorithm : List.of(Algorithm.DIRECT_LL, Algorithm.DIRECT_LL128)) {
        assertEquals(
            KernelLayout.ADMITS_WHEN_MET,
            admits(ranks, windows, Operation.ALL_GATHER, algorithm),
            algorithm.name());
        assertEquals(0, admits(ranks, windows, Operation.BROADCAST, algorithm), algorithm.name());
      }
    }
  }

  private int admits(
      GpuRanks ranks, DirectRanks windows, Operation operation, Algorithm algorithm) {
    int count = 1 << 15;
    WindowWork work =
        new WindowWork(
            operation,
            algorithm,
            DataType.FLOAT32,
            RedOp.SUM,
            0,
            count,
            windows.sends.get(0),
            windows.recvs.get(0),
            64);
    var communicator = ranks.communicators().get(0);
    DeviceMemory send = windows.send.get(0).slice(0, 4L * count);
    DeviceMemory recv = windows.recv.get(0).slice(0, 8L * count);
    communicator.launch(communicator.prepare(work), send, recv, ranks.streams.get(0));
    Offheap arguments = new Offheap(DirectArguments.SIZE);
    fake.fakeArguments(arguments.address());
    return arguments.getInt(KernelLayout.FLAGS)
        & (KernelLayout.ADMITS_WHEN_MET | KernelLayout.ADMITS_AT_ONCE);
  }

  @Test
  void copyEnginesWriteIntoEveryWindow() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(3, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      for (int rank = 0; rank < 3; rank++) {
        windows.send.get(rank).slice(0, 100).fill((byte) (rank + 1));
        var communicator = ranks.communicators().get(rank);
        WindowWork work =
            new WindowWork(
                Operation.ALL_GATHER,
                Algorithm.COPY_ENGINE,
                DataType.INT8,
                RedOp.SUM,
                0,
                100,
                null,
                windows.recvs.get(rank),
                0);
        communicator.launch(
            communicator.prepare(work),
            windows.send.get(rank),
            windows.recv.get(rank),
            ranks.streams.get(rank));
      }
      for (int rank = 0; rank < 3; rank++) {
        ByteBuffer got = ByteBuffer.allocateDirect(300);
        windows.recv.get(rank).read(0, got);
        assertEquals(1, got.get(99));
        assertEquals(2, got.get(100));
        assertEquals(3, got.get(299));
      }
    }
  }

  @Test
  void aPutCopiesAndSignals() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      windows.send.get(0).slice(0, 10).fill((byte) 6);
      var communicator = ranks.communicators().get(0);
      fake.fakeReset();
      communicator.launch(
          communicator.prepare(new OneSidedWork.Put(1, windows.recvs.get(0), 70, 10)),
          windows.send.get(0).slice(0, 10),
          null,
          ranks.streams.get(0));
      ByteBuffer got = ByteBuffer.allocateDirect(80);
      windows.recv.get(1).read(0, got);
      assertEquals(6, got.get(79));
      int copied = fake.fakeRecord().indexOf("cuMemcpyAsync(10,");
      assertTrue(copied >= 0 && fake.fakeRecord().indexOf("cuLaunchKernelEx(1,") > copied);
    }
  }

  /** Blocks that combine fill a multiprocessor each, those that copy half of one. */
  @Test
  void kernelsOfTwoCommunicatorsFindRoom() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      for (Operation operation : new Operation[] {Operation.ALL_REDUCE, Operation.ALL_GATHER}) {
        var communicator = ranks.communicators().get(0);
        WindowWork work =
            new WindowWork(
                operation,
                Algorithm.DIRECT_ONE_SHOT,
                DataType.FLOAT32,
                RedOp.SUM,
                0,
                1000,
                windows.sends.get(0),
                windows.recvs.get(0),
                128);
        fake.fakeReset();
        communicator.launch(
            communicator.prepare(work),
            windows.send.get(0),
            windows.recv.get(0),
            ranks.streams.get(0));
        String launch =
            "cuLaunchKernelEx(%d,".formatted(operation == Operation.ALL_REDUCE ? 64 : 128);
        assertTrue(fake.fakeRecord().contains(launch), fake.fakeRecord());
      }
    }
  }

  /** Before, signals of a second host's ranks went to the places of the first host's. */
  @Test
  void oneSidedOperationsNameRanksByTheirPlacesInTheTeam() {
    assumeKernels();
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        FlatRange range = ranks.devices.get(1).reserve(1, 1L << 32);
        DeviceMemory memory = ranks.devices.get(1).memAlloc(ranks.devices.get(1).resourceBytes(1));
        var communicator = ranks.communicators().get(1)) {
      ShareableMemory shared = ranks.devices.get(1).exportable(memory).orElseThrow();
      DeviceMemory view = range.map(0, 0, shared);
      communicator.attach(
          new SymmetricSpace(
              /* first= */ 1,
              /* size= */ 1,
              /* place= */ 0,
              new WindowView(0, memory.address(), List.of(view), null),
              range.address(),
              range.stride()));
      OneSidedWork signal = new OneSidedWork.Put(0, null, 0, 0);
      OneSidedWork await = new OneSidedWork.Wait(List.of(new OneSidedWork.Awaited(0, 7)));
      for (OneSidedWork work : List.of(signal, await)) {
        communicator.launch(communicator.prepare(work), null, null, ranks.streams.get(1));
        boolean waits = work == await;
        Offheap arguments = new Offheap(AwaitArguments.SIZE);
        fake.fakeAllArguments(
            arguments.address(), waits ? AwaitArguments.SIZE : DirectArguments.SIZE);
        assertEquals(0, arguments.getInt(KernelLayout.RANK));
        assertEquals(1, arguments.getInt(KernelLayout.N_RANKS));
        assertEquals(waits ? 1 : 0, arguments.getInt(DirectArguments.ROOT));
        assertEquals(waits ? 7 : 0, arguments.getInt(AwaitArguments.AWAITED));
      }
      shared.release();
    }
  }

  @Test
  void whatThereIsNotIsRefused() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3));
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      for (WindowWork work :
          new WindowWork[] {
            work(Operation.REDUCE, Algorithm.DIRECT_LL, 1 << 24),
            work(Operation.BROADCAST, Algorithm.DIRECT_ONE_SHOT, 1),
            work(Operation.REDUCE, Algorithm.COPY_ENGINE, 1),
            work(Operation.ALL_REDUCE, Algorithm.DIRECT_LL, 1 << 24)
          }) {
        assertThrows(InvalidUsageException.class, () -> ranks.communicators().get(0).prepare(work));
      }
      assertEquals(2, windows.sends.size());
    }
  }

  private static WindowWork work(Operation operation, Algorithm way, int count) {
    return new WindowWork(operation, way, DataType.FLOAT32, RedOp.SUM, 0, count, null, null, 0);
  }
}
