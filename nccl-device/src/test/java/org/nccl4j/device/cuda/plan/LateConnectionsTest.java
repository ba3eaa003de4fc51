package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.PeerConnector;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.operation.Protocol;

/** Messages of GPUs to ranks without a connection, against the recording driver. */
class LateConnectionsTest extends AgainstFakeCuda {
  private static final int RANKS = 100;
  private static final int RANK = 50;
  private static final int CARRIED = 2;

  private CudaDevice device;
  private ConnectionLayout layout;
  private DeviceMemory buffer;
  private final Map<Integer, PeerConnector.Pair> made = new TreeMap<>();
  private final List<Set<Integer>> asked = new ArrayList<>();
  private boolean broken;

  @BeforeEach
  void openDevice() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    device = CudaDevices.probe().list().get(0);
    layout = device.connectionLayout(RANKS);
    buffer = device.allocate(1000);
  }

  @AfterEach
  void closeMemory() {
    if (buffer != null) {
      buffer.close();
      made.values().forEach(pair -> List.of(pair.send(), pair.recv()).forEach(this::close));
    }
  }

  private void close(Connection connection) {
    connection.data().close();
    connection.credit().close();
  }

  private Connection connection() {
    return new Connection(
        device.allocate(layout.dataBytes()),
        device.allocate(ConnectionLayout.CREDIT_BYTES),
        CARRIED,
        /* lines= */ false);
  }

  private Map<Integer, PeerConnector.Pair> connect(Set<Integer> peers) {
    asked.add(peers);
    if (broken) {
      throw new TimeoutException(ErrorId.NOT_CONNECTED, "they are not connected", "try again");
    }
    peers.forEach(peer -> made.put(peer, new PeerConnector.Pair(connection(), connection())));
    return made;
  }

  private KernelCommunicator communicator(PeerConnector connector) {
    List<Connection> none = Collections.nCopies(RANKS, null);
    return device.createKernelCommunicator(
        new KernelCommunicatorSpec(
            "test",
            RANK,
            RANKS,
            layout,
            none,
            none,
            List.of(IntStream.range(0, RANKS).toArray()),
            List.of(),
            KernelCommunicatorSpec.together(RANKS),
            /* carried= */ true,
            AllowedCores.ofThisThread(1),
            Progress.NONE,
            Duration.ofSeconds(3),
            /* nvls= */ null,
            LaunchOptions.PLAIN,
            connector,
            SingleCopy.OFF));
  }

  private P2pWork work(P2pWork.Kind kind, int peer, long bytes) {
    return new P2pWork(kind, peer, buffer, 0, bytes, Protocol.SIMPLE);
  }

  /** The steps' mark of carried channels: 1 for what is sent, 2 for what is received. */
  private static int carried(Offheap arguments, int channel) {
    long steps =
        arguments.getLong(KernelLayout.INLINE_GROUP_TABLE + KernelLayout.GROUP_STEPS)
            + (long) channel * KernelLayout.STEPS_BYTES;
    ByteBuffer marks =
        NativeMemory.buffer(steps, KernelLayout.STEPS_BYTES).order(ByteOrder.nativeOrder());
    return marks.getShort(KernelLayout.STEPS_CARRIED);
  }

  @Test
  void theFirstMessageConnectsAndKernelsFindTheConnection() {
    try (KernelCommunicator one = communicator(this::connect)) {
      List<P2pWork> works =
          List.of(
              work(P2pWork.Kind.SEND, 70, 1000),
              work(P2pWork.Kind.RECV, 30, 1000),
              work(P2pWork.Kind.SEND, 71, 0),
              work(P2pWork.Kind.SEND, RANK, 10),
              work(P2pWork.Kind.RECV, RANK, 10));
      Offheap arguments = ((CudaKernelPlan) one.prepare(works)).arguments();
      assertEquals(List.of(Set.of(30, 70)), asked, "nothing goes to rank 71");
      Connection first = made.get(70).send();
      int group = KernelLayout.INLINE_GROUP_TABLE;
      assertEquals(70, arguments.getShort(group + KernelLayout.GROUP_PEER));
      assertEquals(first.data().address(), arguments.getLong(group + KernelLayout.GROUP_DATA));
      assertEquals(3, carried(arguments, CARRIED - 1));
      assertEquals(0, carried(arguments, CARRIED));
      one.prepare(works);
      assertEquals(1, asked.size(), "they are connected");
      one.prepare(List.of(work(P2pWork.Kind.RECV, 70, 8), work(P2pWork.Kind.RECV, 31, 8)));
      assertEquals(List.of(Set.of(30, 70), Set.of(31)), asked);
    }
  }

  @Test
  void aRankThatCannotBeConnectedIsAskedForAgain() {
    try (KernelCommunicator one = communicator(this::connect)) {
      List<P2pWork> works = List.of(work(P2pWork.Kind.SEND, 3, 8));
      broken = true;
      assertThrows(TimeoutException.class, () -> one.prepare(works));
      broken = false;
      one.prepare(works);
      assertEquals(List.of(Set.of(3), Set.of(3)), asked);
    }
  }

  /** Rings of a split lead over pairs that may have no connection, or one with fewer channels. */
  @Test
  void splitsDoNotShareConnectionsOfWhichSomeAreMissing() {
    try (KernelCommunicator late = communicator(this::connect);
        KernelCommunicator whole = communicator(PeerConnector.NONE)) {
      assertTrue(late.sharingObstacle().orElseThrow().contains("when messages first need it"));
      assertTrue(whole.sharingObstacle().isEmpty());
    }
  }
}
