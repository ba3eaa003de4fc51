package org.nccl4j.it.device;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.DeviceCommunicator;
import org.nccl4j.api.DeviceCommunicator.Requirements;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaDevice;

/** Example: a user's own kernels, compiled by nvcc and launched through JCuda. Needs GPUs. */
@Tag("gpu")
class OwnKernelGpuTest {
  private static final int COUNT = 1 << 20;
  private static final int PAIRS = 512;
  private static final int BLOCKS = 16;
  private static final byte POISON = (byte) 0xAB;
  private static final long SEED = 23;

  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void ownKernelsAllReduce(int n, @TempDir Path folder) throws Exception {
    onGpus(n, folder, CommunicatorConfig.defaults(), OwnKernelGpuTest::run);
  }

  /** Where NVLS is by the switch. */
  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void ownKernelsAllReduceByMultimem(int n, @TempDir Path folder) throws Exception {
    onGpus(
        n,
        folder,
        CommunicatorConfig.defaults().with("NCCL_ALGO", "NVLS"),
        OwnKernelGpuTest::runByMultimem);
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void ownKernelsAllReduceInPlace(int n, @TempDir Path folder) throws Exception {
    onGpus(n, folder, CommunicatorConfig.defaults(), OwnKernelGpuTest::runInPlace);
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void ownKernelsCopyBetweenAnyOffsets(int n, @TempDir Path folder) throws Exception {
    onGpus(n, folder, CommunicatorConfig.defaults(), OwnKernelGpuTest::runCopies);
  }

  /** A rank's work on its thread with the compiled kernels; false if it cannot run here. */
  private interface Body {
    boolean run(Communicator rank, byte[] cubin);
  }

  private static void onGpus(int n, Path folder, CommunicatorConfig config, Body body)
      throws Exception {
    List<CudaDevice> all = Devices.cuda().list();
    assumeTrue(all.size() >= n, "needs %d GPUs".formatted(n));
    byte[] cubin = OwnKernel.compile("own_kernel.cu", folder, "native");
    List<Device> devices = new ArrayList<>(all.subList(0, n));
    ExecutorService threads = Executors.newFixedThreadPool(n);
    List<Communicator> ranks = Communicator.initAll(devices, config);
    List<Future<Boolean>> futures = new ArrayList<>();
    for (Communicator rank : ranks) {
      futures.add(threads.submit(() -> body.run(rank, cubin)));
    }
    boolean could = true;
    for (Future<Boolean> future : futures) {
      could &= future.get();
    }
    threads.shutdown();
    ranks.forEach(Communicator::close);
    assumeTrue(could, "no NVLS by the switch");
  }

  private static boolean runByMultimem(Communicator rank, byte[] cubin) {
    CudaDevice device = (CudaDevice) rank.device();
    OwnKernel kernels = OwnKernel.load(device, cubin);
    try (DeviceMemory data = device.memAlloc(4 * COUNT);
        DeviceMemory failed = device.allocate(4)) {
      Window window = rank.registerWindow(data);
      if (window.multimemAddress().isEmpty()) {
        return false;
      }
      try (DeviceCommunicator own =
          rank.createDeviceCommunicator(Requirements.defaults().withBarriers(BLOCKS))) {
        data.write(0, values(rank.rank()));
        long[] windows = {window.deviceHandle(), 0};
        kernels.launch(
            "ownMultimemAllReduce", BLOCKS, own.address(), windows, COUNT, failed.address());
        verify(rank, data, COUNT);
        assertNothingFailed(failed);
        rank.deregisterWindowOnAllRanks(window);
        return true;
      }
    }
  }

  private static float value(int rank, int i) {
    return (i % 1000) + 10 * rank;
  }

  private static ByteBuffer values(int rank) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
    for (int i = 0; i < COUNT; i++) {
      data.putFloat(value(rank, i));
    }
    return data.flip();
  }

  private static boolean run(Communicator rank, byte[] cubin) {
    CudaDevice device = (CudaDevice) rank.device();
    OwnKernel kernels = OwnKernel.load(device, cubin);
    try (DeviceMemory in = device.memAlloc(4 * COUNT);
        DeviceMemory out = device.memAlloc(4 * COUNT);
        DeviceMemory failed = device.allocate(4)) {
      in.write(0, values(rank.rank()));
      Window send = rank.registerWindow(in);
      Window recv = rank.registerWindow(out);
      try (DeviceCommunicator own =
          rank.createDeviceCommunicator(
              Requirements.defaults().withBarriers(BLOCKS).withSlots(PAIRS))) {
        for (int round = 0; round < 20; round++) {
          long[] windows = {send.deviceHandle(), recv.deviceHandle()};
          kernels.launch("ownAllReduce", BLOCKS, own.address(), windows, COUNT, failed.address());
          verify(rank, out, COUNT);
          long[] buffers = {in.address(), out.address()};
          kernels.launch("ownSmallAllReduce", 1, own.address(), buffers, PAIRS, failed.address());
          verify(rank, out, 2 * PAIRS);
        }
        assertNothingFailed(failed);
        rank.deregisterWindowOnAllRanks(send);
        rank.deregisterWindowOnAllRanks(recv);
        return true;
      }
    }
  }

  /** Parts of all alignments, and one in which blocks have nothing to do. */
  private static boolean runInPlace(Communicator rank, byte[] cubin) {
    CudaDevice device = (CudaDevice) rank.device();
    OwnKernel kernels = OwnKernel.load(device, cubin);
    try (DeviceMemory data = device.memAlloc(4 * COUNT);
        DeviceMemory failed = device.allocate(4)) {
      Window window = rank.registerWindow(data);
      long[] windows = {window.deviceHandle(), 0};
      try (DeviceCommunicator own =
          rank.createDeviceCommunicator(Requirements.defaults().withBarriers(BLOCKS))) {
        for (int part : new int[] {COUNT / rank.nRanks(), 1, 3, 4099, 65_537, 100_002}) {
          int count = part * rank.nRanks();
          data.write(0, values(rank.rank()));
          kernels.launch(
              "ownAllReduceInPlace", BLOCKS, own.address(), windows, count, failed.address());
          verify(rank, data, count);
        }
        assertNothingFailed(failed);
        rank.deregisterWindowOnAllRanks(window);
        return true;
      }
    }
  }

  private static boolean runCopies(Communicator rank, byte[] cubin) {
    CudaDevice device = (CudaDevice) rank.device();
    OwnKernel kernels = OwnKernel.load(device, cubin);
    int room = 64;
    int cases = 16 * 16 * 5;
    int size = 2 * cases * room;
    ByteBuffer list = ByteBuffer.allocateDirect(16 * cases).order(ByteOrder.nativeOrder());
    Random random = new Random(SEED); // the same on all ranks
    byte[] expected = new byte[size];
    Arrays.fill(expected, POISON);
    byte[] next = bytes(size, (rank.rank() + 1) % rank.nRanks());
    for (int i = 0; i < cases; i++) {
      int to = 2 * room * i + 16 + i % 16;
      int from = i / 16 % 16 + 16 * (1 + random.nextInt(size / 16 - 6));
      int bytes = i < 256 ? i % room : 1 + random.nextInt(room);
      list.putInt(to).putInt(from).putInt(bytes).putInt(0);
      System.arraycopy(next, from, expected, to, bytes);
    }
    try (DeviceMemory in = device.memAlloc(size);
        DeviceMemory out = device.memAlloc(size);
        DeviceMemory copies = device.allocate(list.capacity());
        DeviceMemory failed = device.allocate(4)) {
      in.write(0, ByteBuffer.wrap(bytes(size, rank.rank())));
      out.fill(POISON);
      copies.write(0, list.flip());
      Window source = rank.registerWindow(in);
      Window target = rank.registerWindow(out);
      try (DeviceCommunicator own =
          rank.createDeviceCommunicator(Requirements.defaults().withBarriers(2))) {
        long[] windows = {source.deviceHandle(), target.deviceHandle()};
        kernels.launch(
            "ownCopies", BLOCKS, own.address(), windows, cases, failed.address(), copies.address());
        ByteBuffer got = ByteBuffer.allocate(size);
        out.read(0, got);
        assertArrayEquals(expected, got.array(), "seed " + SEED);
        assertNothingFailed(failed);
        rank.deregisterWindowOnAllRanks(source);
        rank.deregisterWindowOnAllRanks(target);
        return true;
      }
    }
  }

  private static byte[] bytes(int size, int rank) {
    byte[] bytes = new byte[size];
    new Random(SEED + rank).nextBytes(bytes);
    return bytes;
  }

  private static void assertNothingFailed(DeviceMemory failed) {
    ByteBuffer flag = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder());
    failed.read(0, flag);
    assertEquals(0, flag.getInt(0), "a wait timed out");
  }

  private static void verify(Communicator rank, DeviceMemory out, int count) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
    out.read(0, data);
    for (int i = 0; i < count; i++) {
      float sum = 0;
      for (int r = 0; r < rank.nRanks(); r++) {
        sum += value(r, i);
      }
      assertEquals(sum, data.getFloat(4 * i), "element " + i);
    }
  }
}
