package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import jnr.ffi.LibraryLoader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Registration;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;

/** Operations over the InfiniBand network and a libibverbs that moves data within the process. */
@Timeout(600)
class IbOperationsTest {
  @ParameterizedTest
  @CsvSource({"2, 1000, 1, 0", "3, 100000, 1, 0", "2, 300000, 3, 0", "3, 70000, 2, 1"})
  void everyOperation(int n, int count, String pairs, String split) throws Exception {
    everyOperation(
        n,
        count,
        config()
            .with("NCCL_IB_QPS_PER_CONNECTION", pairs)
            .with("NCCL_IB_SPLIT_DATA_ON_QPS", split));
  }

  /** Where certificates are set, the queue pairs' numbers are told by TLS. */
  @Test
  void everyOperationWithCertificates() throws Exception {
    Path files =
        Path.of("..", "nccl-api", "src", "test", "resources", "org/nccl4j/api/bootstrap/tls");
    everyOperation(
        3,
        1000,
        config()
            .with("NCCL4J_TLS_CERT", files.resolve("rank.pem").toString())
            .with("NCCL4J_TLS_KEY", files.resolve("rank.key").toString())
            .with("NCCL4J_TLS_CA", files.resolve("authority.pem").toString()));
  }

  /** The number of objects of the fake library. Public for jnr-ffi's stubs. */
  public interface Live {
    int fake_live();
  }

  /** Each communicator's connections know the memory, whoever has registered it. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void memoryIsForgottenByAllCommunicatorsOnceItIsDeregistered(boolean closes, @TempDir Path folder)
      throws Exception {
    // The library of the other tests may still lose objects of theirs.
    String copy = FakeVerbsLibrary.copyTo(folder);
    CommunicatorConfig config = config().with("NCCL_IBVERBS_LIB", copy);
    Live live = LibraryLoader.create(Live.class).failImmediately().load(copy);
    int count = 1 << 20;
    try (Ranks others = Ranks.onHosts("ab", config)) {
      List<DeviceMemory> buffers = List.of(zeros(count), zeros(count));
      Ranks.Body broadcast =
          (comm, stream) -> {
            DeviceMemory own = buffers.get(comm.rank());
            comm.broadcast(own, own, count, DataType.FLOAT32, 0, stream);
            stream.synchronize();
          };
      others.run(broadcast);
      int connected = live.fake_live();
      Ranks ranks = Ranks.onHosts("ab", config);
      ranks.run(broadcast);
      int before = live.fake_live();
      List<Registration> registered = new ArrayList<>();
      for (Communicator comm : ranks.communicators) {
        registered.add(comm.register(buffers.get(comm.rank())));
      }
      ranks.run(broadcast);
      others.run(broadcast);
      assertEquals(before + buffers.size(), live.fake_live(), "each buffer is registered once");
      if (closes) {
        ranks.close();
        await(() -> live.fake_live() == connected);
      } else {
        for (Communicator comm : ranks.communicators) {
          comm.deregister(registered.get(comm.rank()));
        }
        await(() -> live.fake_live() == before);
        ranks.close();
      }
      buffers.forEach(DeviceMemory::close);
    }
  }

  private static DeviceMemory zeros(int count) {
    return Ranks.floats(count, i -> 0);
  }

  private static void await(BooleanSupplier done) {
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    while (!done.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, "the memory is still registered");
      Thread.onSpinWait();
    }
  }

  private static CommunicatorConfig config() {
    return CommunicatorConfig.defaults()
        .withTransports(List.of("NET"))
        .with("NCCL_NET", "IB")
        .with("NCCL_IBVERBS_LIB", FakeVerbsLibrary.path());
  }

  private static void everyOperation(int n, int count, CommunicatorConfig config) throws Exception {
    // Those of earlier tests may still be ending.
    Set<Thread> before = socketThreads();
    try (Ranks ranks = new Ranks(n, config)) {
      assertEquals("NET", ranks.communicators.get(0).transports().get(1));
      OperationsTest.everyOperation(ranks, count);
      Set<Thread> now = socketThreads();
      now.removeAll(before);
      assertEquals(Set.of(), now, "no sockets are used");
    }
  }

  private static Set<Thread> socketThreads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith("nccl4j-socket"))
        .collect(Collectors.toSet());
  }
}
