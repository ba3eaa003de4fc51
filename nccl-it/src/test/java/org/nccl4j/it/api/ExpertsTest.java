package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.api.Group;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.ReceiveHook;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;

/** Dispatch to experts and combine on the host device. */
@Timeout(600)
class ExpertsTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int ROUNDS = 6;

  private static void rounds(Ranks ranks, ExpertConfig config) throws Exception {
    System.out.println("seed " + SEED);
    ranks.run((comm, stream) -> Experts.run(comm, stream, config, ROUNDS, SEED));
  }

  @Test
  void randomTokens() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      rounds(ranks, new ExpertConfig(7, 12, 2, 9, DataType.FLOAT32, false));
      rounds(ranks, new ExpertConfig(33, 40, 3, 6, DataType.BFLOAT16, false));
      rounds(ranks, new ExpertConfig(1, 8, 8, 3, DataType.FLOAT16, false));
    }
  }

  @Test
  void randomTokensAsFp8() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      rounds(ranks, new ExpertConfig(9, 128, 2, 8, DataType.BFLOAT16, true));
      rounds(ranks, new ExpertConfig(5, 384, 3, 2, DataType.FLOAT32, true));
      rounds(ranks, new ExpertConfig(5, 256, 1, 4, DataType.FLOAT16, true));
    }
  }

  @Test
  void aSingleRank() throws Exception {
    try (Ranks ranks = new Ranks(1)) {
      rounds(ranks, new ExpertConfig(10, 16, 2, 5, DataType.BFLOAT16, false));
    }
  }

  @Test
  void ranksOfSeveralHosts() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabab", CommunicatorConfig.defaults())) {
      rounds(ranks, new ExpertConfig(6, 128, 2, 10, DataType.BFLOAT16, true));
      rounds(ranks, new ExpertConfig(9, 40, 4, 15, DataType.FLOAT16, false));
    }
  }

  @Test
  void hostsAddTheirOutputs() throws Exception {
    for (String hosts : List.of("aabab", "abc", "aaa")) {
      try (Ranks ranks = Ranks.onHosts(hosts, CommunicatorConfig.defaults())) {
        int n = hosts.length();
        for (ExpertConfig config :
            List.of(
                new ExpertConfig(6, 128, 5, 2 * n, DataType.BFLOAT16, true, true),
                new ExpertConfig(9, 40, 4, 3 * n, DataType.FLOAT16, false, true),
                new ExpertConfig(7, 8, 3, n, DataType.FLOAT32, false, true))) {
          ranks.run((comm, stream) -> Experts.run(comm, stream, config, hosts, ROUNDS, SEED));
        }
      }
    }
  }

  @Test
  void ranksInProcesses() throws Exception {
    HostProcesses.run("aa", Device.Kind.HOST, ExpertRank.class, SEED);
  }

  /** Before, the others waited for it until their deadline. */
  @Test
  void aRankThatLacksMemoryInADispatchIsAnErrorOfAll() throws Exception {
    assumeTrue(Files.isExecutable(ExpertsLackingMemory.prlimit()), "no prlimit");
    List<String> command = RankJvm.command();
    command.add(ExpertsLackingMemory.class.getName());
    Process process = new ProcessBuilder(command).inheritIO().start();
    try {
      assertTrue(process.waitFor(300, TimeUnit.SECONDS), "it does not end");
      assertEquals(0, process.exitValue());
    } finally {
      process.destroyForcibly();
    }
  }

  @Test
  void theWayOfTheCallsIsLoggedOnce() throws Exception {
    List<String> lines = new CopyOnWriteArrayList<>();
    Handler handler = NvlsTest.collect(lines, Level.INFO);
    Logger logger = Logger.getLogger("org.nccl4j.INIT");
    logger.addHandler(handler);
    try (Ranks ranks = new Ranks(2, CommunicatorConfig.defaults().with("NCCL_DEBUG", "INFO"))) {
      ranks.run(
          (comm, stream) -> {
            comm.createExpertExchange(sizes(4)).close();
            comm.createExpertExchange(sizes(8)).close();
            comm.createRaggedExchange(new RaggedConfig(4, 1, 2, DataType.INT32)).close();
          });
    } finally {
      logger.removeHandler(handler);
    }
    for (String call : List.of("createExpertExchange", "createRaggedExchange")) {
      List<String> told = lines.stream().filter(line -> line.contains(call)).toList();
      assertEquals(2, told.size(), lines.toString());
      for (String line : told) {
        assertTrue(
            line.endsWith(
                "runs calls of "
                    + call
                    + " by sends and receives, for which the host waits: rank 0 has no kernels for"
                    + " them, since the host device has none"),
            line);
      }
    }
  }

  @Test
  void sizesThatNoExchangeHasAreRefused() {
    for (Runnable wrong :
        new Runnable[] {
          () -> new ExpertConfig(0, 8, 1, 1, DataType.FLOAT32, false),
          () -> new ExpertConfig(1, 6, 1, 1, DataType.FLOAT32, false),
          () -> new ExpertConfig(1, 64, 1, 1, DataType.FLOAT32, true),
          () -> new ExpertConfig(1, 8, 0, 1, DataType.FLOAT32, false),
          () -> new ExpertConfig(1, 8, 1, 1, DataType.INT32, false)
        }) {
      InvalidArgumentException e = assertThrows(InvalidArgumentException.class, wrong::run);
      assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
    }
  }

  /** A refusal changes nothing: the same exchange goes on with the ranks in step. */
  @Test
  void wrongCallsAreRefusedAndChangeNothing() throws Exception {
    ExpertConfig config = new ExpertConfig(4, 8, 2, 4, DataType.FLOAT32, false);
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            refused("multiple", () -> comm.createExpertExchange(sizes(5)));
            refused("group", () -> Group.run(() -> comm.createExpertExchange(config)));
            ExpertExchange exchange = comm.createExpertExchange(config);
            try (DeviceMemory tokens = Devices.host().allocate(4 * 32);
                DeviceMemory experts = Devices.host().allocate(4 * 8);
                DeviceMemory weights = Devices.host().allocate(4 * 8)) {
              refused("dispatched", () -> exchange.combine(tokens, tokens, stream));
              refused("5 tokens", () -> exchange.dispatch(tokens, experts, weights, 5, stream));
              refused("weights", () -> exchange.dispatch(tokens, experts, null, 4, stream));
              DeviceMemory few = tokens.slice(0, 124);
              refused("124 bytes", () -> exchange.dispatch(few, experts, weights, 4, stream));
              experts.fill((byte) 4);
              refused("expert", () -> exchange.dispatch(tokens, experts, weights, 4, stream));
              experts.fill((byte) 0);
              exchange.dispatch(tokens, experts, weights, 4, stream);
              if (comm.rank() == 0) {
                refused("16 rows", () -> exchange.combine(weights, tokens, stream));
              }
              DeviceMemory received = exchange.received().slice(32, 4 * 32);
              String own = " lies in memory of the exchange";
              refused(
                  "tokens" + own, () -> exchange.dispatch(received, experts, weights, 4, stream));
              refused(
                  "experts" + own,
                  () -> exchange.dispatch(tokens, exchange.counts(), weights, 2, stream));
              refused(
                  "weights" + own,
                  () -> exchange.beginDispatch(tokens, experts, exchange.offsets(), 1, stream));
              try (DeviceMemory outputs = Devices.host().allocate(16 * 32)) {
                refused("overlaps", () -> exchange.combine(outputs, outputs, stream));
                refused("overlaps", () -> exchange.beginCombine(outputs, outputs, stream));
                exchange.combine(outputs, tokens, stream);
              }
              exchange.close();
              exchange.close();
              refused("closed", () -> exchange.dispatch(tokens, experts, weights, 4, stream));
            }
          });
    }
  }

  @Test
  void aCallInPartsIsReceivedOnceAndBeforeTheNext() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (ExpertExchange exchange = comm.createExpertExchange(sizes(4));
                DeviceMemory tokens = Devices.host().allocate(4 * 32);
                DeviceMemory experts = Devices.host().allocate(4 * 8);
                DeviceMemory outputs = Devices.host().allocate(16 * 32)) {
              ReceiveHook first = exchange.beginDispatch(tokens, experts, experts, 4, stream);
              String open = "the last dispatch was begun and not received";
              refused(open, () -> exchange.dispatch(tokens, experts, experts, 4, stream));
              refused(open, () -> exchange.beginDispatch(tokens, experts, experts, 4, stream));
              refused(open, () -> exchange.combine(outputs, tokens, stream));
              refused("group", () -> Group.run(() -> first.receive(stream)));
              first.receive(stream);
              refused("it was received", () -> first.receive(stream));
              ReceiveHook second = exchange.beginCombine(outputs, tokens, stream);
              String of = "the last combine was begun and not received";
              refused(of, () -> exchange.dispatch(tokens, experts, experts, 4, stream));
              refused(of, () -> exchange.beginCombine(outputs, tokens, stream));
              refused("it was received", () -> first.receive(stream));
              second.receive(stream);
              refused("it was received", () -> second.receive(stream));
              exchange.combine(outputs, tokens, stream);
            }
          });
    }
  }

  private static ExpertConfig sizes(int experts) {
    return new ExpertConfig(4, 8, 2, experts, DataType.FLOAT32, false);
  }

  private static void refused(String word, Runnable call) {
    NcclException e = assertThrows(NcclException.class, call::run);
    assertTrue(
        e instanceof InvalidArgumentException || e instanceof InvalidUsageException, e.toString());
    assertTrue(e.getMessage().contains(word), e.getMessage());
    assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
  }

  @Test
  void sizesThatOneRankRefusesAreAnErrorOfAll() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            NcclException e =
                assertThrows(
                    NcclException.class, () -> comm.createExpertExchange(sizes(4 + comm.rank())));
            assertEquals(comm.rank() == 0, e instanceof RemoteException, e.toString());
            assertTrue(e.getMessage().contains("5 experts on 2 ranks"), e.getMessage());
          });
      rounds(ranks, sizes(4));
    }
  }

  @Test
  void differentSizesAreRefusedOnAllRanks() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      int refused = 0;
      for (FutureTask<Void> task :
          ranks.start((comm, stream) -> comm.createExpertExchange(sizes(2 + 2 * comm.rank())))) {
        Throwable cause =
            assertThrows(ExecutionException.class, () -> task.get(300, TimeUnit.SECONDS))
                .getCause();
        assertTrue(cause.getMessage().contains("experts=4"), cause.getMessage());
        refused++;
      }
      assertEquals(2, refused);
      rounds(ranks, sizes(4));
    }
  }
}
