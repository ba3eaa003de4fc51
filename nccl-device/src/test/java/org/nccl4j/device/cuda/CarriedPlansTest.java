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
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
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
    return new CollectiveWork(
        Operation.ALL_REDUCE,
        Algorithm.RING,
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

  private static P2pWork send(int peer, DeviceMemory buffer) {
    return new P2pWork(P2pWork.Kind.SEND, peer, buffer, 0, 4 << 20, Protocol.LL);
  }
}
