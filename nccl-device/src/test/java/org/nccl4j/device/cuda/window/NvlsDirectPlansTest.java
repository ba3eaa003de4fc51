package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.DirectRanks;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.memory.CudaMemory;
import org.nccl4j.device.cuda.plan.LayoutTest;
import org.nccl4j.device.kernel.KernelCommunicator.GroupLaunch;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Direct plans by multicast against the recording driver, and their arguments' header. */
class NvlsDirectPlansTest extends AgainstFakeCuda {
  private static final NvlsLayout LAYOUT = new NvlsLayout(1, 16, 512);

  @AfterEach
  void onlyEmulated() {
    if (fake != null) {
      assertTrue(!fake.fakeRecord().contains("cuMulticast"), "emulated");
    }
  }

  @Test
  void argumentsLieWhereTheHeaderSays() throws Exception {
    assertEquals(
        "%d %d %d %d %d %d\n"
            .formatted(
                NvlsDirectArguments.SEND_MULTICAST,
                NvlsDirectArguments.RECV_MULTICAST,
                NvlsDirectArguments.RESOURCES_MULTICAST,
                NvlsDirectArguments.N_HEADS,
                NvlsDirectArguments.HEAD_RANK,
                NvlsDirectArguments.SIZE),
        LayoutTest.run(
            "nvls_direct_layout.h",
            """
            #define AT(name) (int)offsetof(nccl4jNvlsDirectArguments, name)
            printf("%d %d %d %d %d %d\\n", AT(sendMulticast), AT(recvMulticast),
                   AT(resourcesMulticast), AT(nHeads), AT(headRank),
                   (int)sizeof(nccl4jNvlsDirectArguments));
            """));
  }

  private static WindowWork work(
      Operation operation, Algorithm way, WindowView send, WindowView recv) {
    return new WindowWork(
        operation,
        way,
        DataType.FLOAT32,
        RedOp.SUM,
        0,
        100,
        way.needsSend(operation) ? send : null,
        way.needsRecv(operation) ? recv : null,
        0);
  }

  @ParameterizedTest
  @EnumSource(names = {"DIRECT_NVLS", "DIRECT_NVLS_LL"})
  void whatIsEmulatedTakesItsKernel(Algorithm way) {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3), null, LAYOUT);
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      WindowWork work = work(Operation.ALL_REDUCE, way, windows.sends.get(0), windows.recvs.get(0));
      var communicator = ranks.communicators().get(0);
      communicator.launch(
          communicator.prepare(work),
          windows.send.get(0).slice(0, 400),
          windows.recv.get(0).slice(0, 400),
          ranks.streams.get(0));
      String name = way.isLines() ? "nccl4j_nvls_ll_emulated" : "nccl4j_nvls_window_emulated";
      assertEquals(name, fake.fakeLaunched());
      int threads = way.isLines() ? 64 : 512;
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(1,1,1,%d,1,1,0,".formatted(threads)));
    }
  }

  /** Small operations in lines by multicast are in groups beside those without. */
  @Test
  void groupsNeedNoMulticast() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3), null, LAYOUT);
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      var communicator = ranks.communicators().get(0);
      GroupLaunch group = communicator.groupLaunch();
      Algorithm[] ways = {Algorithm.DIRECT_NVLS_LL, Algorithm.DIRECT_LL, Algorithm.DIRECT_NVLS_LL};
      for (int i = 0; i < ways.length; i++) {
        int count = i < 2 ? 100 : 1025;
        WindowWork work =
            new WindowWork(
                Operation.ALL_REDUCE,
                ways[i],
                DataType.FLOAT32,
                RedOp.SUM,
                0,
                count,
                null,
                null,
                0);
        boolean added =
            group.add(
                communicator.prepare(work),
                windows.send.get(0).slice(8192L * i, 4L * count),
                windows.recv.get(0).slice(8192L * i, 4L * count),
                ranks.streams.get(0));
        assertEquals(i < 2, added);
      }
      group.launch(0, 2);
      group.clear();
      assertEquals("nccl4j_direct_ll_group", fake.fakeLaunched());
    }
  }

  /** The kernel's offsets lead from the users' addresses to multicast addresses. */
  @Test
  void theSwitchsViewsAreDistancesFromTheUsersAddresses() {
    CudaDevice device = CudaDevices.probe().device(0);
    DeviceMemory some = CudaMemory.wrap(device.gpu(), 1 << 20, 4096);
    WindowView send = window(device, 1, 0x10_0000, 0x7000_0000);
    WindowView recv = window(device, 2, 0x20_0000, 0x6000_0000);
    WindowView library = window(device, 0, 0x30_0000, 0x5000_0000);
    Nvls nvls = new Nvls(LAYOUT, List.of(1), -1, some, send.multicast());
    SymmetricSpace space = new SymmetricSpace(0, 2, 0, library, 1 << 20, 1L << 32);
    NvlsDirectPlans plans = new NvlsDirectPlans(kernels(device), nvls, space);
    Offheap arguments = new Offheap(NvlsDirectArguments.SIZE);
    plans.put(arguments, work(Operation.ALL_REDUCE, Algorithm.DIRECT_NVLS, send, recv));
    assertEquals(0x7000_0000, 0x10_0000 + arguments.getLong(NvlsDirectArguments.SEND_MULTICAST));
    assertEquals(0x6000_0000, 0x20_0000 + arguments.getLong(NvlsDirectArguments.RECV_MULTICAST));
    assertEquals(0x5000_0000, arguments.getLong(NvlsDirectArguments.RESOURCES_MULTICAST));
    assertEquals(1, arguments.getInt(NvlsDirectArguments.N_HEADS));
    assertEquals(-1, arguments.getInt(NvlsDirectArguments.HEAD_RANK));
  }

  private static WindowView window(CudaDevice device, long number, long user, long multicast) {
    DeviceMemory memory = CudaMemory.wrap(device.gpu(), user, 4096);
    DeviceMemory all = CudaMemory.wrap(device.gpu(), multicast, 4096);
    return new WindowView(
        number, user, List.of(memory), new MulticastMemory(/* emulated= */ false, List.of(all)));
  }

  @Test
  void whatMulticastDoesNotReachOrHaveIsRefused() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3), null, LAYOUT);
        DirectRanks windows = new DirectRanks(ranks, 1 << 20)) {
      var communicator = ranks.communicators().get(0);
      WindowView send = windows.sends.get(0);
      WindowView far = new WindowView(9, send.address(), send.peers());
      WindowWork unreached = work(Operation.ALL_REDUCE, Algorithm.DIRECT_NVLS, send, far);
      var error = assertThrows(InvalidUsageException.class, () -> communicator.prepare(unreached));
      assertTrue(error.problem().contains("which no multicast object reaches"), error.problem());
      WindowWork absent = work(Operation.REDUCE_SCATTER, Algorithm.DIRECT_NVLS_LL, send, send);
      error = assertThrows(InvalidUsageException.class, () -> communicator.prepare(absent));
      assertTrue(error.problem().contains("which does not have it"), error.problem());
    }
  }
}
