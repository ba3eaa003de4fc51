package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.function.IntToDoubleFunction;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/** A communicator of some ranks of this process, each with a stream and a thread. */
final class Ranks implements AutoCloseable {
  /** Of a wait of a test: a machine may stand still for more than a minute. */
  static final long PATIENCE_NANOS = 300_000_000_000L;

  private static final Executor THREADS = task -> new Thread(task).start();

  /** A rank's work on its thread. */
  interface Body {
    void run(Communicator communicator, DeviceStream stream) throws Exception;
  }

  final List<Communicator> communicators;
  final List<DeviceStream> streams = new ArrayList<>();

  Ranks(int n) {
    this(n, CommunicatorConfig.defaults());
  }

  Ranks(int n, CommunicatorConfig config) {
    this(Communicator.initAll(Collections.nCopies(n, Devices.host()), bounded(config)));
  }

  Ranks(List<Communicator> communicators) {
    this.communicators = communicators;
    communicators.forEach(c -> streams.add(c.device().createStream()));
  }

  private static CommunicatorConfig bounded(CommunicatorConfig config) {
    return config.settings().containsKey("NCCL4J_TIMEOUT")
        ? config
        : config.withOperationTimeout(Duration.ofSeconds(60));
  }

  /**
   * Ranks that say they are on several hosts; those of different hosts are connected by sockets.
   *
   * @param hosts a letter for each rank: those with the same are on one host
   */
  static Ranks onHosts(String hosts, CommunicatorConfig config) {
    return onHosts(hosts, List.of(Devices.host()), config);
  }

  /**
   * As above.
   *
   * @param devices that the ranks have by turns
   */
  static Ranks onHosts(String hosts, List<? extends Device> devices, CommunicatorConfig config) {
    return onHosts(hosts, devices, rank -> config);
  }

  /** As above, with a configuration for each rank. */
  static Ranks onHosts(
      String hosts, List<? extends Device> devices, IntFunction<CommunicatorConfig> configs) {
    // Else the process's own memory would connect them.
    IntFunction<CommunicatorConfig> local =
        rank ->
            bounded(configs.apply(rank))
                .with("NCCL_SOCKET_IFNAME", "lo")
                .with("NCCL_P2P_DISABLE", "1");
    UniqueId id = UniqueId.create(local.apply(0));
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < hosts.length(); rank++) {
      CommunicatorConfig own = local.apply(rank).with("NCCL_HOSTID", "host " + hosts.charAt(rank));
      Device device = devices.get(rank % devices.size());
      joining.add(Communicator.initRankAsync(hosts.length(), id, rank, device, own));
    }
    return new Ranks(joining.stream().map(CompletableFuture::join).toList());
  }

  /** Runs a body on a thread for each rank; throws the first rank's error. */
  void run(Body body) throws Exception {
    List<FutureTask<Void>> tasks = start(body);
    for (FutureTask<Void> task : tasks) {
      try {
        task.get(600, TimeUnit.SECONDS);
      } catch (ExecutionException e) {
        if (e.getCause() instanceof RuntimeException cause) {
          throw cause;
        }
        throw e;
      }
    }
  }

  List<FutureTask<Void>> start(Body body) {
    List<FutureTask<Void>> tasks = new ArrayList<>();
    for (int rank = 0; rank < communicators.size(); rank++) {
      Communicator communicator = communicators.get(rank);
      DeviceStream stream = streams.get(rank);
      FutureTask<Void> task =
          new FutureTask<>(
              () -> {
                body.run(communicator, stream);
                return null;
              });
      tasks.add(task);
      Thread thread = new Thread(task, "rank " + rank);
      thread.setDaemon(true);
      thread.start();
    }
    return tasks;
  }

  /** Something on each of some ranks, each on a thread of its own. */
  static <T> List<T> all(List<Communicator> ranks, Function<Communicator, T> what) {
    return ranks.stream()
        .map(rank -> CompletableFuture.supplyAsync(() -> what.apply(rank), THREADS))
        .toList()
        .stream()
        .map(CompletableFuture::join)
        .toList();
  }

  static DeviceMemory floats(int count, IntToDoubleFunction value) {
    ByteBuffer data = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      data.putFloat((float) value.applyAsDouble(i));
    }
    DeviceMemory memory = Devices.host().allocate(4L * count);
    memory.write(0, data.flip());
    return memory;
  }

  static float[] floats(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocate((int) memory.size()).order(ByteOrder.nativeOrder());
    memory.read(0, data);
    float[] out = new float[(int) memory.size() / 4];
    data.flip().asFloatBuffer().get(out);
    return out;
  }

  /** Compares every element, and describes the first that is wrong. */
  static void assertFloats(IntToDoubleFunction expected, float[] got, String what) {
    for (int i = 0; i < got.length; i++) {
      float due = (float) expected.applyAsDouble(i);
      if (Float.compare(due, got[i]) != 0) {
        assertEquals(due, got[i], what + ", element " + i);
      }
    }
  }

  @Override
  public void close() {
    streams.forEach(DeviceStream::close);
    communicators.forEach(Communicator::close);
  }

  /** True if a thread waits for what other ranks say. */
  static boolean isInExchange(Thread thread) {
    return List.of(thread.getStackTrace()).stream()
        .anyMatch(
            frame ->
                frame.getClassName().startsWith("org.nccl4j.api.bootstrap.")
                    && frame.getMethodName().equals("exchange"));
  }
}
