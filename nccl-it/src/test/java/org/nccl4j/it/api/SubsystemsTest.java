package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;

/** The lines of each subsystem with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS. */
@Timeout(600)
class SubsystemsTest {
  private final Logger logger = Logger.getLogger("org.nccl4j");
  private final List<String> lines = new CopyOnWriteArrayList<>();

  /** The name of the test's communicator. */
  private volatile String used = "";

  private final Handler keeper =
      new Handler() {
        @Override
        public void publish(LogRecord line) {
          String text = new SimpleFormatter().formatMessage(line);
          String name = line.getLoggerName();
          if (line.getLevel().equals(Level.WARNING) && !text.contains("communicator " + used)) {
            return; // of an earlier class, such as of memory that is closed late
          }
          lines.add(name.substring(name.lastIndexOf('.') + 1) + " " + text);
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
      };

  @BeforeEach
  void listen() {
    logger.addHandler(keeper);
    logger.setUseParentHandlers(false);
  }

  @AfterEach
  void stop() {
    logger.removeHandler(keeper);
    logger.setUseParentHandlers(true);
  }

  private CommunicatorConfig debug(String name, String subsystems) {
    used = name;
    return CommunicatorConfig.defaults()
        .withName(name)
        .with("NCCL_DEBUG", "INFO")
        .with("NCCL_DEBUG_SUBSYS", subsystems);
  }

  private void assertSaid(String... beginnings) {
    for (String beginning : beginnings) {
      assertTrue(
          lines.stream().anyMatch(line -> line.startsWith(beginning)),
          () -> "no '" + beginning + "' among\n" + String.join("\n", lines));
    }
  }

  private static void use(Ranks ranks) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory memory = Devices.host().memAlloc(4096)) {
            Window window = comm.registerWindow(memory);
            comm.allReduce(memory, memory, 1000, DataType.FLOAT32, RedOp.SUM, stream);
            stream.synchronize();
            comm.deregisterWindowOnAllRanks(window);
            comm.deregister(comm.register(memory));
          }
          comm.split(0, comm.rank()).ifPresent(Communicator::close);
        });
  }

  @Test
  void eachTellsItsPart() throws Exception {
    CommunicatorConfig all = debug("told", "ALL");
    try (Ranks ranks = new Ranks(2, all.with("NCCL_MAX_CTAS", "63"))) {
      use(ranks);
    }
    assertSaid(
        "INIT rank 0 of communicator told was created in ",
        "INIT rank 0: transports",
        "ENV NCCL_MAX_CTAS=63 (",
        "ENV NCCL_DEBUG_SUBSYS=ALL (",
        "P2P rank 0 of communicator told connects to ranks [1] through P2P: ",
        "ALLOC rank 0 of communicator told holds {",
        "TUNING rank 0 of communicator told runs AllReduce of 4000 bytes by ",
        "COLL all_reduce: operation 1 of rank 0 of communicator told, 1000 float, ",
        "CALL rank 1 of communicator told calls split(0, 1)",
        "CALL rank 0 of communicator told calls close",
        "REG rank 0 of communicator told has window ",
        "REG rank 0 of communicator told deregisters window ",
        "REG rank 0 of communicator told registers 4096 bytes at ");
  }

  @Test
  void ranksOfSeveralHostsAndProcesses() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aab", debug("far", "ALL"))) {
      use(ranks);
      ranks.communicators.get(1).revoke();
      long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
      while (lines.stream().noneMatch(l -> l.startsWith("RAS rank 2")) && System.nanoTime() < end) {
        Thread.onSpinWait();
      }
    }
    assertSaid(
        "BOOTSTRAP rank 2 of communicator far joined as one of 3 in ",
        "INIT rank 2 of communicator far was created in ",
        "SHM rank 0 of communicator far connects to ranks [1] through SHM: ",
        "NET rank 0 of communicator far connects to ranks [2] through NET: ",
        "PROXY rank 2 of communicator far runs a proxy thread for 4 ends of connections",
        "CALL rank 1 of communicator far calls revoke",
        "RAS rank 2 of communicator far has failed: ");
    String phases =
        ".* was created in [0-9.]+ ms: bootstrap [0-9.]+ ms, plug-ins, nets [0-9.]+ ms, .*";
    assertTrue(lines.stream().anyMatch(line -> line.matches(phases)), lines::toString);
  }

  @Test
  void onlyWhatIsNamedIsTold() throws Exception {
    try (Ranks ranks = new Ranks(2, debug("some", "TUNING,REG"))) {
      use(ranks);
    }
    assertSaid("TUNING ", "REG ");
    assertEquals(
        List.of(),
        lines.stream().filter(l -> !l.startsWith("TUNING ") && !l.startsWith("REG ")).toList());
    lines.clear();
    try (Ranks ranks = new Ranks(2, debug("none", "ALL").with("NCCL_DEBUG", "WARN"))) {
      use(ranks);
    }
    assertEquals(List.of(), lines);
  }
}
