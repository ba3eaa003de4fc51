package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import jnr.ffi.LibraryLoader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Registration;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * Steps that are sent to other hosts from the users' buffers and received there: these are
 * overwritten as soon as an operation has ended, and no byte may be wrong, whatever breaks
 * meanwhile.
 */
@Timeout(900)
class ZeroCopyTest {
  private static final int SEEDS = Boolean.getBoolean("nccl4j.thorough") ? 200 : 10;
  private static final int LARGEST = 300_000;
  private static final int OPERATIONS = 8;
  private static final int MOST_RUNS = 10;

  @TempDir private Path folder;

  /** The entry of fakeverbs.c that breaks queue pairs. Public for jnr-ffi's stubs. */
  public interface Chaos {
    void fake_chaos(int oneOf, long seed);
  }

  private static CommunicatorConfig sockets() {
    return CommunicatorConfig.defaults()
        .withTransports(List.of("NET"))
        .with("NCCL_NET", "Socket")
        .with("NCCL4J_NET_ZERO_COPY", "all");
  }

  private static CommunicatorConfig infiniBand() {
    return CommunicatorConfig.defaults()
        .withTransports(List.of("NET"))
        .with("NCCL_NET", "IB")
        .with("NCCL_IBVERBS_LIB", FakeVerbsLibrary.path());
  }

  private static CommunicatorConfig faulty(String faults) {
    return sockets().with("NCCL_NET", "FaultySocket").with("NCCL4J_FAULTS", faults);
  }

  /**
   * Bytes of large steps.
   *
   * @param direct sent from buffers
   * @param placed received in buffers
   * @param large all that were sent
   */
  private record Sent(long direct, long placed, long large) {}

  private CommunicatorConfig config(String net) throws Exception {
    return switch (net) {
      case "IB" -> infiniBand();
      case "Plugin" ->
          sockets()
              .with("NCCL_NET", "Plugin")
              .with("NCCL_NET_PLUGIN", NetPluginLibrary.build(folder, 11, "copies"));
      default -> sockets();
    };
  }

  private interface Work {
    void run() throws Exception;
  }

  private Sent sent(Work work) throws Exception {
    Path file = folder.resolve("steps.jfr");
    try (Recording recording = new Recording()) {
      recording.enable("org.nccl4j.ProxyStep");
      recording.start();
      work.run();
      recording.stop();
      recording.dump(file);
    }
    long direct = 0;
    long placed = 0;
    long large = 0;
    for (RecordedEvent each : RecordingFile.readAllEvents(file)) {
      if (each.getEventType().getName().equals("org.nccl4j.ProxyStep")
          && each.getLong("bytes") >= 64 << 10) {
        boolean send = each.getString("direction").equals("send");
        long bytes = each.getLong("bytes");
        large += send ? bytes : 0;
        direct += send && each.getBoolean("zeroCopy") ? bytes : 0;
        placed += !send && each.getBoolean("zeroCopy") ? bytes : 0;
      }
    }
    return new Sent(direct, placed, large);
  }

  /**
   * Runs work until its steps are as expected, some times at most: a receiver that has no core asks
   * for a step after it was sent.
   */
  private Sent sent(Work work, Predicate<Sent> expected) throws Exception {
    Sent sent = sent(work);
    for (int again = 1; again < MOST_RUNS && !expected.test(sent); again++) {
      sent = sent(work);
    }
    assertTrue(expected.test(sent), sent.toString());
    return sent;
  }

  @ParameterizedTest
  @CsvSource({
    "Socket, all, false",
    "Socket, registered, true",
    "IB, registered, true",
    "Plugin, registered, true"
  })
  void largeStepsAreSentFromTheBuffersAndReceivedThere(String net, String which, boolean registered)
      throws Exception {
    CommunicatorConfig config = config(net).with("NCCL4J_NET_ZERO_COPY", which);
    sent(() -> rounds(2, config, 1, registered), sent -> sent.direct > sent.large / 2);
    boolean receives = !net.equals("Socket") || which.equals("all");
    Sent many =
        sent(
            () -> broadcast(config, registered),
            sent -> sent.direct > sent.large / 2 && (!receives || sent.placed > sent.large / 2));
    assertTrue(receives || many.placed == 0, many.toString());
  }

  /**
   * Puts from one window to another.
   *
   * @param placed whether all data are received in the window too, or what the network is told of
   *     in time; off if all go through slots
   */
  @ParameterizedTest
  @CsvSource({
    "Socket, all, some",
    "Socket, registered, off",
    "Socket, off, off",
    "IB, registered, whole",
    "IB, off, off",
    "Plugin, registered, some"
  })
  void putsAreSentFromTheWindowAndReceivedInTheOther(String net, String which, String placed)
      throws Exception {
    CommunicatorConfig config = config(net).with("NCCL4J_NET_ZERO_COPY", which);
    boolean isSome = placed.equals("some");
    Sent sent = sent(() -> puts(config, 1, 16), s -> !isSome || s.placed > s.large / 4);
    boolean off = placed.equals("off");
    assertEquals(off ? 0 : sent.large, sent.direct, sent.large / 8.0, sent.toString());
    if (placed.equals("whole")) {
      assertEquals(sent.direct, sent.placed, sent.toString());
    } else if (!isSome) {
      assertEquals(0, sent.placed, sent.toString());
    }
  }

  /** One rank alone has it off, and the other does not wait for it. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void putsOfRanksWithDifferentSettings(int off) throws Exception {
    CommunicatorConfig on = infiniBand();
    CommunicatorConfig without = on.with("NCCL4J_NET_ZERO_COPY", "off");
    try (Ranks ranks =
        Ranks.onHosts("ab", List.of(Devices.host()), rank -> rank == off ? without : on)) {
      ranks.run((comm, stream) -> new Puts(comm, stream, 3).exchange(4));
    }
  }

  @Test
  void putsOverQueuePairsThatBreak() throws Exception {
    Chaos chaos = LibraryLoader.create(Chaos.class).failImmediately().load(FakeVerbsLibrary.path());
    try {
      for (int seed = 1; seed <= SEEDS; seed++) {
        chaos.fake_chaos(60 + new Random(seed).nextInt(200), seed);
        String pairs = Integer.toString(1 + seed % 3);
        puts(infiniBand().with("NCCL_IB_QPS_PER_CONNECTION", pairs), seed, OPERATIONS);
      }
    } finally {
      chaos.fake_chaos(0, 0);
    }
  }

  @Test
  void putsOverSocketsThatBreak() throws Exception {
    for (int seed = 1; seed <= SEEDS; seed++) {
      int resets = 100_000 + new Random(seed).nextInt(3_000_000);
      String faults = "seed=%d,piece=40000,resetsAfter=%d".formatted(seed, resets);
      puts(faulty(faults), seed, OPERATIONS);
    }
  }

  private static void puts(CommunicatorConfig config, int seed, int rounds) throws Exception {
    try (Ranks ranks = Ranks.onHosts(seed % 2 == 0 ? "ab" : "abc", config)) {
      ranks.run((comm, stream) -> new Puts(comm, stream, seed).exchange(rounds));
    }
  }

  /** Every rank puts to the next one: random sizes at random places, and signals it. */
  private static final class Puts {
    private static final int MOST = 5 << 20;

    private final Communicator comm;
    private final DeviceStream stream;
    private final int seed;
    private final int next;
    private final int previous;

    Puts(Communicator comm, DeviceStream stream, int seed) {
      this.comm = comm;
      this.stream = stream;
      this.seed = seed;
      this.next = (comm.rank() + 1) % comm.nRanks();
      this.previous = (comm.rank() + comm.nRanks() - 1) % comm.nRanks();
    }

    private static byte[] data(int seed, int round, int rank, int bytes) {
      return RandomBytes.of(1000L * seed + 10L * round + rank, bytes);
    }

    /** The source is overwritten once the put has ended, and the target once it was compared. */
    void exchange(int rounds) throws Exception {
      try (DeviceMemory source = Devices.host().memAlloc(MOST);
          DeviceMemory target = Devices.host().memAlloc(MOST)) {
        Window from = comm.registerWindow(source);
        Window to = comm.registerWindow(target);
        byte[] filled = new byte[MOST];
        Arrays.fill(filled, (byte) 0x44);
        for (int round = 0; round < rounds; round++) {
          Random random = new Random(1000L * seed + round); // the same on all ranks
          int bytes = random.nextInt(4) == 0 ? random.nextInt(100_000) : random.nextInt(MOST);
          int at = random.nextInt(MOST - bytes);
          int read = random.nextInt(MOST - bytes);
          source.write(read, ByteBuffer.wrap(data(seed, round, comm.rank(), bytes)));
          comm.putSignal(source.slice(read, bytes), bytes, DataType.INT8, next, to, at, stream);
          stream.synchronize();
          source.fill((byte) 0x33);
          comm.waitSignal(Map.of(previous, 1), stream);
          stream.synchronize();
          byte[] got = new byte[bytes];
          target.read(at, ByteBuffer.wrap(got));
          int wrong = Arrays.mismatch(data(seed, round, previous, bytes), got);
          assertEquals(-1, wrong, "wrong byte: seed " + seed + ", round " + round);
          target.fill((byte) 0x44);
          comm.signal(next, stream);
          comm.waitSignal(Map.of(previous, 1), stream);
          stream.synchronize();
          byte[] all = new byte[MOST];
          target.read(0, ByteBuffer.wrap(all));
          assertEquals(-1, Arrays.mismatch(filled, all), "written after its signal: seed " + seed);
          comm.signal(previous, stream); // the target may be written to again
          comm.waitSignal(Map.of(next, 1), stream);
          stream.synchronize();
        }
        comm.deregisterWindowOnAllRanks(to);
        comm.deregisterWindowOnAllRanks(from);
      }
    }
  }

  /** Of so many steps that most are expected before they are sent. */
  private static void broadcast(CommunicatorConfig config, boolean registered) throws Exception {
    int count = 4 << 20;
    try (Ranks ranks = Ranks.onHosts("ab", config)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Ranks.floats(count, i -> comm.rank() == 0 ? i % 1000 : 7)) {
              Optional<Registration> mine =
                  registered ? Optional.of(comm.register(memory)) : Optional.empty();
              comm.broadcast(memory, memory, count, DataType.FLOAT32, 0, stream);
              stream.synchronize();
              float[] values = Ranks.floats(memory);
              for (int i = 0; i < count; i++) {
                if (values[i] != i % 1000) {
                  assertEquals(i % 1000, values[i], "element " + i);
                }
              }
              mine.ifPresent(comm::deregister);
            }
          });
    }
  }

  /** Through slots alone, for example memory that nobody registered. */
  @ParameterizedTest
  @ValueSource(strings = {"setting", "single copy", "not registered", "not registered with IB"})
  void orNot(String why) throws Exception {
    CommunicatorConfig config =
        switch (why) {
          case "setting" -> sockets().with("NCCL4J_NET_ZERO_COPY", "off");
          case "single copy" -> sockets().with("NCCL4J_SINGLE_COPY", "off");
          case "not registered" -> sockets().with("NCCL4J_NET_ZERO_COPY", "registered");
          default -> infiniBand();
        };
    Sent sent = sent(() -> rounds(2, config, 1, false));
    assertEquals(0, sent.direct);
    assertEquals(0, sent.placed);
    assertTrue(sent.large > 0);
  }

  @Test
  void socketsThatBreak() throws Exception {
    for (int seed = 1; seed <= SEEDS; seed++) {
      int resets = 100_000 + new Random(seed).nextInt(3_000_000);
      String faults = "seed=%d,piece=40000,resetsAfter=%d".formatted(seed, resets);
      CommunicatorConfig config =
          faulty(faults).with("NCCL_SOCKET_NTHREADS", seed % 4 == 0 ? "2" : "0");
      rounds(2 + seed % 2, config, seed, seed % 3 == 0);
    }
  }

  @Test
  void queuePairsThatBreak() throws Exception {
    CommunicatorConfig config = infiniBand();
    Chaos chaos = LibraryLoader.create(Chaos.class).failImmediately().load(FakeVerbsLibrary.path());
    try {
      for (int seed = 1; seed <= SEEDS; seed++) {
        chaos.fake_chaos(60 + new Random(seed).nextInt(200), seed);
        rounds(
            2 + seed % 2,
            config.with("NCCL_IB_QPS_PER_CONNECTION", Integer.toString(1 + seed % 3)),
            seed,
            true);
      }
    } finally {
      chaos.fake_chaos(0, 0);
    }
  }

  /** Operations of random sizes; every buffer is overwritten at once, and some are made anew. */
  private static void rounds(int n, CommunicatorConfig config, int seed, boolean registered)
      throws Exception {
    try (Ranks ranks = Ranks.onHosts("abcd".substring(0, n), config)) {
      ranks.run(
          (comm, stream) -> {
            try (Buffers buffers = new Buffers(comm, registered)) {
              Random random = new Random(seed);
              for (int round = 0; round < OPERATIONS; round++) {
                buffers.operate(random, seed + ", operation " + round, stream);
              }
            }
          });
    }
  }

  /** A rank's buffers. */
  private static final class Buffers implements AutoCloseable {
    private final Communicator comm;
    private final boolean registered;
    private final int rank;
    private final int n;
    private DeviceMemory out;
    private DeviceMemory in;
    private final List<Registration> registrations = new ArrayList<>();

    Buffers(Communicator comm, boolean registered) {
      this.comm = comm;
      this.registered = registered;
      this.rank = comm.rank();
      this.n = comm.nRanks();
      open();
    }

    private void open() {
      out = Devices.host().memAlloc(4L * LARGEST * n);
      in = Devices.host().memAlloc(4L * LARGEST * n);
      if (registered) {
        registrations.add(comm.register(out));
        registrations.add(comm.register(in));
      }
    }

    private static int value(int whose, int salt, int at) {
      return whose * 1_000_003 + salt * 7919 + at * 31;
    }

    private void fill(int salt, int count) {
      ByteBuffer bytes = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
      for (int i = 0; i < count; i++) {
        bytes.putInt(value(rank, salt, i));
      }
      out.write(0, bytes.flip());
    }

    private int[] received(int count) {
      ByteBuffer bytes = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
      in.read(0, bytes);
      int[] values = new int[count];
      bytes.flip().asIntBuffer().get(values);
      return values;
    }

    void operate(Random random, String what, DeviceStream stream) {
      int kind = random.nextInt(5);
      int any = 20_000 + random.nextInt(LARGEST - 20_000);
      int each = any / n;
      int count = kind == 4 ? each * n : any;
      int salt = random.nextInt(1 << 20);
      int root = random.nextInt(n);
      boolean anew = random.nextInt(4) == 0;
      fill(salt, count);
      in.fill((byte) 0x5a);
      switch (kind) {
        case 0 -> comm.allGather(out, in, count, DataType.INT32, stream);
        case 1 -> comm.broadcast(out, in, count, DataType.INT32, root, stream);
        case 2 -> comm.allReduce(out, in, count, DataType.INT32, RedOp.SUM, stream);
        case 4 -> comm.allToAll(out, in, each, DataType.INT32, stream);
        default ->
            Group.run(
                () -> {
                  comm.send(out, count, DataType.INT32, (rank + 1) % n, stream);
                  comm.recv(in, count, DataType.INT32, (rank + n - 1) % n, stream);
                });
      }
      stream.synchronize();
      out.fill((byte) 0xee);
      int[] values = received(kind == 0 ? count * n : count);
      for (int i = 0; i < values.length; i++) {
        int expected =
            switch (kind) {
              case 0 -> value(i / count, salt, i % count);
              case 1 -> value(root, salt, i);
              case 2 -> sum(salt, i);
              case 4 -> value(i / each, salt, rank * each + i % each);
              default -> value((rank + n - 1) % n, salt, i);
            };
        if (values[i] != expected) {
          assertEquals(expected, values[i], "seed " + what + ", kind " + kind + ", element " + i);
        }
      }
      if (anew) {
        close();
        open();
      }
    }

    private int sum(int salt, int at) {
      int sum = 0;
      for (int whose = 0; whose < n; whose++) {
        sum += value(whose, salt, at);
      }
      return sum;
    }

    /** After a failure there is nothing to deregister from. */
    @Override
    public void close() {
      if (comm.asyncError().isPresent()) {
        registrations.clear();
      }
      registrations.forEach(comm::deregister);
      registrations.clear();
      out.close();
      in.close();
    }
  }

  /** After a failure nothing reads the buffers any more, so they can be freed at once. */
  @ParameterizedTest
  @ValueSource(strings = {"Socket", "IB"})
  void buffersAreReturnedAfterAnAbort(String net) throws Exception {
    CommunicatorConfig config =
        net.equals("IB") ? infiniBand() : faulty("stopsAfter=3000000").with("NCCL4J_TIMEOUT", "3s");
    try (Ranks ranks = Ranks.onHosts("ab", config)) {
      List<FutureTask<Void>> tasks =
          ranks.start(
              (comm, stream) -> {
                try (Buffers buffers = new Buffers(comm, net.equals("IB"))) {
                  int count = LARGEST;
                  int last = comm.rank() == 0 ? 1000 : 3;
                  for (int i = 0; i < last; i++) {
                    comm.allGather(buffers.out, buffers.in, count, DataType.INT32, stream);
                    stream.synchronize();
                  }
                  if (comm.rank() == 1) {
                    buffers.registrations.clear();
                    comm.abort();
                  }
                }
              });
      ExecutionException e =
          assertThrows(ExecutionException.class, () -> tasks.get(0).get(300, TimeUnit.SECONDS));
      assertTrue(e.getCause() instanceof NcclException, e.toString());
      ranks.communicators.forEach(Communicator::abort);
    }
  }
}
