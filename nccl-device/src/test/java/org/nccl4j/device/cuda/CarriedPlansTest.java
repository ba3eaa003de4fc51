package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.ExposedSteps;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans where a proxy carries a connection, against the recording driver. */
class CarriedPlansTest {
  private static final int CARRIED = 2;

  private FakeLibrary fake;

  @BeforeEach
  void start() {
    fake = FakeCuda.get();
    CudaDevices.probe().list().forEach(device -> device.gpu().context());
  }

  /** Counts what it is told. */
  private static final class Told implements Progress {
    private int launches;
    private int returns;

    @Override
    public int doWork() {
      return 0;
    }

    @Override
    public void kernelLaunched() {
      launches++;
    }

    @Override
    public void kernelEnded() {}

    @Override
    public void endExposures() {
      returns++;
    }
  }

  /** Of the ranks' last, with its connection to rank 0 carried. */
  private static KernelCommunicatorSpec carried(
      KernelCommunicatorSpec spec, Progress progress, boolean lines) {
    return new KernelCommunicatorSpec(
        spec.name(),
        spec.rank(),
        spec.nRanks(),
        spec.layout(),
        carried(spec.sends(), lines),
        carried(spec.recvs(), lines),
        spec.ring(),
        spec.trees(),
        spec.localRanks(),
        progress,
        spec.deadline());
  }

  private static List<Connection> carried(List<Connection> connections, boolean lines) {
    List<Connection> with = new ArrayList<>(connections);
    with.set(0, new Connection(with.get(0).data(), with.get(0).credit(), CARRIED, lines));
    return with;
  }

  private static CollectiveWork sum(Protocol protocol, int channels) {
    return sum(Algorithm.RING, protocol, channels);
  }

  private static CollectiveWork sum(Algorithm algorithm, Protocol protocol, int channels) {
    return new CollectiveWork(
        Operation.ALL_REDUCE,
        algorithm,
        protocol,
        DataType.FLOAT32,
        RedOp.SUM,
        0,
        1000,
        channels,
        1 << 20);
  }

  @Test
  void whatIsNotCarriedIsRefusedAndTheRestHasItsChannels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Told told = new Told();
    try (GpuRanks ranks = new GpuRanks(3, Duration.ofSeconds(3));
        DeviceMemory buffer = ranks.devices.get(2).allocate(4 << 20);
        CudaKernelCommunicator communicator =
            CudaKernelCommunicator.create(ranks.devices.get(2), carried(ranks.spec, told, false))) {
      for (CollectiveWork work :
          List.of(sum(Protocol.LL, 1), sum(Protocol.SIMPLE, 3), sum(Protocol.SIMPLE, 0))) {
        InvalidArgumentException e =
            assertThrows(InvalidArgumentException.class, () -> communicator.prepare(work));
        assertTrue(
            e.getMessage().contains("connection to rank 0, which is over a network"),
            e.getMessage());
      }
      fake.fakeReset();
      communicator.launch(
          communicator.prepare(sum(Protocol.SIMPLE, CARRIED)),
          buffer,
          buffer,
          ranks.streams.get(2));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(2,1,1,576,"), fake.fakeRecord());
      // LL to both: one carried, by two blocks in Simple; the other not.
      fake.fakeReset();
      communicator.launch(
          communicator.prepare(List.of(send(0, buffer), send(1, buffer))),
          null,
          null,
          ranks.streams.get(2));
      int blocks = CARRIED + ConnectionLayout.CHANNELS;
      assertTrue(
          fake.fakeRecord().contains("cuLaunchKernelEx(%d,1,1,576,".formatted(blocks)),
          fake.fakeRecord());
      assertEquals(2, told.launches);
    }
  }

  /** Of four ranks the last is not beside rank 1 in the ring. */
  @Test
  void fewChannelsOfAConnectionLimitOnlyWhatLeadsOverIt() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(4, Duration.ofSeconds(3))) {
      KernelCommunicatorSpec spec = ranks.spec;
      List<Connection> sends = new ArrayList<>(spec.sends());
      sends.set(1, new Connection(sends.get(1).data(), sends.get(1).credit(), CARRIED, false));
      List<Connection> recvs = new ArrayList<>(spec.recvs());
      recvs.set(1, new Connection(recvs.get(1).data(), recvs.get(1).credit(), CARRIED, false));
      try (CudaKernelCommunicator communicator =
          CudaKernelCommunicator.create(ranks.devices.get(3), spec.withConnections(sends, recvs))) {
        boolean inTree = spec.trees().stream().anyMatch(tree -> tree.neighbours().contains(1));
        for (Algorithm algorithm : List.of(Algorithm.RING, Algorithm.TREE, Algorithm.ONE_SHOT)) {
          boolean leads = algorithm == Algorithm.ONE_SHOT || algorithm == Algorithm.TREE && inTree;
          communicator.prepare(sum(algorithm, Protocol.SIMPLE, CARRIED));
          CollectiveWork more = sum(algorithm, Protocol.SIMPLE, CARRIED + 1);
          if (leads) {
            InvalidArgumentException e =
                assertThrows(
                    InvalidArgumentException.class, () -> communicator.prepare(more), "" + more);
            assertTrue(e.getMessage().contains("on at most 2"), e.getMessage());
          } else {
            communicator.prepare(more);
          }
        }
      }
    }
  }

  @Test
  void linesAreSentWhereProxiesCarryThem() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(3, Duration.ofSeconds(3));
        DeviceMemory buffer = ranks.devices.get(2).allocate(4 << 20);
        CudaKernelCommunicator communicator =
            CudaKernelCommunicator.create(
                ranks.devices.get(2), carried(ranks.spec, new Told(), true))) {
      for (CollectiveWork work : List.of(sum(Protocol.LL, 3), sum(Protocol.LL128, 1))) {
        InvalidArgumentException e =
            assertThrows(InvalidArgumentException.class, () -> communicator.prepare(work));
        assertTrue(e.getMessage().contains("LL or Simple on at most 2"), e.getMessage());
      }
      fake.fakeReset();
      communicator.launch(
          communicator.prepare(sum(Protocol.LL, CARRIED)), buffer, buffer, ranks.streams.get(2));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(2,1,1,256,"), fake.fakeRecord());
      // By two blocks to the carried, in LL as well.
      fake.fakeReset();
      communicator.launch(
          communicator.prepare(List.of(send(0, buffer), send(1, buffer))),
          null,
          null,
          ranks.streams.get(2));
      int blocks = CARRIED + ConnectionLayout.CHANNELS;
      assertTrue(
          fake.fakeRecord().contains("cuLaunchKernelEx(%d,1,1,512,".formatted(blocks)),
          fake.fakeRecord());
    }
  }

  /** Of the ranks' last, whose proxies of the connections with rank 0 can use buffers. */
  private static KernelCommunicatorSpec withBuffers(GpuRanks ranks, Told told) {
    CudaDevice device = ranks.devices.get(2);
    KernelCommunicatorSpec spec = carried(ranks.spec, told, false);
    List<Connection> sends = new ArrayList<>(spec.sends());
    List<Connection> recvs = new ArrayList<>(spec.recvs());
    ExposedSteps exposed = device.exposedPuts(sends.get(0), spec.layout(), 0);
    sends.set(0, sends.get(0).withBuffers(exposed, null));
    recvs.set(0, recvs.get(0).withBuffers(null, device.placedPuts()));
    return spec.withConnections(sends, recvs);
  }

  /** Launches a plan and returns which of its first works use their buffers. */
  private long exposed(
      CudaKernelCommunicator communicator, KernelPlan plan, DeviceMemory own, GpuRanks ranks) {
    communicator.launch(plan, own, own, ranks.streams.get(2));
    Offheap arguments = new Offheap(KernelLayout.P2P_BYTES);
    fake.fakeAllArguments(arguments.address(), KernelLayout.P2P_BYTES);
    return arguments.getLong(KernelLayout.EXPOSED);
  }

  private static P2pWork work(P2pWork.Kind kind, DeviceMemory buffer, long offset, long bytes) {
    return new P2pWork(kind, 0, buffer, offset, bytes, Protocol.SIMPLE);
  }

  @Test
  void buffersThatAreRegisteredAtTheLaunchAreUsed() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(3, Duration.ofSeconds(3));
        DeviceMemory from = ranks.devices.get(2).allocate(4 << 20);
        DeviceMemory into = ranks.devices.get(2).allocate(4 << 20);
        CudaKernelCommunicator communicator =
            CudaKernelCommunicator.create(ranks.devices.get(2), withBuffers(ranks, new Told()))) {
      KernelPlan plan =
          communicator.prepare(
              List.of(
                  work(P2pWork.Kind.SEND, from, 4, 2 << 20),
                  work(P2pWork.Kind.SEND, from, 0, 64 << 10),
                  work(P2pWork.Kind.SEND, from, 0, (64 << 10) - 1),
                  new P2pWork(P2pWork.Kind.SEND, 1, from, 0, 2 << 20, Protocol.SIMPLE),
                  work(P2pWork.Kind.RECV, into, 0, 3 << 20),
                  work(P2pWork.Kind.RECV, into, 2 << 20, 2 << 20)));
      int recvs = 3; // the sends to rank 1, which is near, come last
      assertEquals(0, exposed(communicator, plan, null, ranks));
      RegisteredMemory ofSends = RegisteredMemory.of(from.slice(0, 3 << 20));
      assertEquals(0b11, exposed(communicator, plan, null, ranks));
      RegisteredMemory ofReceives = RegisteredMemory.of(into.slice(1 << 20, 3 << 20));
      assertEquals(0b11 | 0b10 << recvs + 1, exposed(communicator, plan, null, ranks));
      ofSends.refuse();
      assertEquals(0b10 << recvs + 1, exposed(communicator, plan, null, ranks));
      ofReceives.close();
      assertEquals(0, exposed(communicator, plan, null, ranks));
      ofSends.close();
    }
  }

  @Test
  void theLaunchsOwnBuffersAreUsedIfTheyAreRegistered() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(3, Duration.ofSeconds(3));
        DeviceMemory registered = ranks.devices.get(2).allocate(4 << 20);
        DeviceMemory other = ranks.devices.get(2).allocate(4 << 20);
        CudaKernelCommunicator communicator =
            CudaKernelCommunicator.create(ranks.devices.get(2), withBuffers(ranks, new Told()));
        RegisteredMemory registration = RegisteredMemory.of(registered)) {
      KernelPlan plan =
          communicator.prepare(List.of(work(P2pWork.Kind.SEND, null, 1 << 20, 3 << 20)));
      assertEquals(1, exposed(communicator, plan, registered, ranks));
      assertEquals(0, exposed(communicator, plan, other, ranks));
      assertEquals(1, exposed(communicator, plan, registered, ranks));
      assertTrue(registration.isOpen());
    }
  }

  /** The network must not read from or write to buffers after a failure. */
  @Test
  void aFailureEndsTheUseOfBuffersThatKernelsMayHaveExposed() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    for (boolean exposes : new boolean[] {false, true}) {
      Told told = new Told();
      try (GpuRanks ranks = new GpuRanks(3, Duration.ofSeconds(3));
          DeviceMemory buffer = ranks.devices.get(2).allocate(4 << 20);
          RegisteredMemory registration =
              RegisteredMemory.of(exposes ? buffer : buffer.slice(0, 4096));
          CudaKernelCommunicator communicator =
              CudaKernelCommunicator.create(ranks.devices.get(2), withBuffers(ranks, told))) {
        KernelPlan plan =
            communicator.prepare(List.of(work(P2pWork.Kind.SEND, buffer, 0, 1 << 20)));
        communicator.launch(plan, null, null, ranks.streams.get(2));
        assertEquals(0, told.returns);
        communicator.abort(new TimeoutException(ErrorId.OPERATION, "a test", "none"));
        assertEquals(exposes ? 1 : 0, told.returns);
        assertTrue(registration.isOpen());
      }
    }
  }

  private static P2pWork send(int peer, DeviceMemory buffer) {
    return new P2pWork(P2pWork.Kind.SEND, peer, buffer, 0, 4 << 20, Protocol.LL);
  }
}
