package org.nccl4j.api.init.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.CopyTimes;

class KeptCopyTimesTest {
  private static final CopyTimes TIMES =
      new CopyTimes(List.of(1500L, 2500L, 3000L, 45_070L), List.of(500L, 1L, 7000L, 80_000L));

  private static final Optional<CopyTimes.Kept> KEPT =
      Optional.of(new CopyTimes.Kept(TIMES, /* isDue= */ false));

  /** The times of the same copies on a busy machine. */
  private static final CopyTimes SLOW =
      new CopyTimes(List.of(1500L, 2600L, 3000L, 45_070L), List.of(4000L, 8L, 56_000L, 640_000L));

  @TempDir Path folder;
  private Path processors;
  private int processes;

  @BeforeEach
  void machine() throws IOException {
    processors = folder.resolve("cpuinfo");
    Files.writeString(
        processors,
        """
        processor : 0
        cpu family : 25
        model : 17
        model name : AMD EPYC 9R14

        processor : 1
        cpu family : 6
        model : 207
        model name : another
        """);
  }

  private ProbeKey key(String kernel, String java) {
    return ProbeKey.ofCopies(processors, kernel, java);
  }

  /** A store as another process has it: under another name of the folder. */
  private KeptCopyTimes another(ProbeKey key) {
    Path other = folder;
    for (int p = processes++; p >= 0; p--) {
      other = other.resolve("nccl4j").resolve("..");
    }
    InfoLog info =
        new InfoLog(
            Settings.ofProcess(Map.of("NCCL_DEBUG", "INFO", "NCCL_DEBUG_SUBSYS", "TUNING")),
            "rank 0");
    return new KeptCopyTimes(new ProbeCache(Optional.of(other.resolve("nccl4j"))), key, info);
  }

  /** The file of times that no second measurement has confirmed. */
  private Path file(ProbeKey key) {
    return confirmed(key.inDoubt());
  }

  private Path confirmed(ProbeKey key) {
    return new ProbeCache(Optional.of(folder.resolve("nccl4j"))).file(key).orElseThrow();
  }

  private static void age(Path file, Duration age) throws IOException {
    Files.setLastModifiedTime(file, FileTime.from(Instant.now().minus(age)));
  }

  private static CopyTimes.Kept due(CopyTimes times) {
    return new CopyTimes.Kept(times, /* isDue= */ true);
  }

  @Test
  void anotherProcessOfTheMachineFindsTheTimes() throws IOException {
    ProbeKey key = key("6.1.0", "17.0.1+12");
    assertEquals(Optional.empty(), another(key).find());
    another(key).keep(TIMES);
    assertEquals(KEPT, another(key("6.1.0", "17.0.1+12")).find());
    assertEquals(
        "# probe 4 of 2 AMD EPYC 9R14 (family 25, model 17), kernel 6.1.0, Java 17.0.1+12, nccl4j,"
            + " to be measured again",
        Files.readAllLines(file(key)).get(0).replaceAll(" nccl4j [^,]*", " nccl4j"));
  }

  @Test
  void aChangedMachineHasNone() throws IOException {
    another(key("6.1.0", "17.0.1+12")).keep(TIMES);
    assertEquals(Optional.empty(), another(key("6.1.1", "17.0.1+12")).find());
    assertEquals(Optional.empty(), another(key("6.1.0", "21.0.1+12")).find());
    String text = Files.readString(processors);
    Files.writeString(processors, text.replace("model : 17", "model : 1"));
    assertEquals(Optional.empty(), another(key("6.1.0", "17.0.1+12")).find());
    Files.writeString(processors, text);
    assertEquals(KEPT, another(key("6.1.0", "17.0.1+12")).find());
  }

  @Test
  void aFileThatDoesNotFitIsIgnoredWithALineInTheLog() throws IOException {
    ProbeKey key = key("6.1.0", "17.0.1+12");
    another(key).keep(TIMES);
    Path file = file(key);
    String whole = Files.readString(file);
    for (String wrong :
        List.of(
            "",
            "\0\0\0",
            whole.replace(":1.500", ":"),
            whole.replace("32768:", "16384:"),
            whole.replace(" 262144:45.070", ""),
            whole.replace("Ring", "Tree"),
            whole.replace("6.1.0", "6.1.9"))) {
      assertNotEquals(whole, wrong);
      Files.writeString(file, wrong);
      StringBuilder log = new StringBuilder();
      Logger logger = Logger.getLogger("org.nccl4j.TUNING");
      Handler handler = recorder(log);
      logger.addHandler(handler);
      logger.setUseParentHandlers(false);
      try {
        assertEquals(Optional.empty(), another(key).find(), wrong);
      } finally {
        logger.removeHandler(handler);
        logger.setUseParentHandlers(true);
      }
      assertTrue(log.toString().matches("rank 0 ignores [^\n]*\n"), log + " for " + wrong);
    }
    another(key).keep(TIMES);
    assertEquals(KEPT, another(key).find());
  }

  private static Handler recorder(StringBuilder log) {
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord line) {
            log.append(line.getMessage()).append('\n');
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    handler.setLevel(Level.ALL);
    return handler;
  }

  @Test
  void timesOfABusyMachineAreMeasuredAgain() throws IOException {
    ProbeKey key = key("6.1.0", "17.0.1+12");
    assertEquals(SLOW, another(key).keep(SLOW));
    assertEquals(Optional.of(new CopyTimes.Kept(SLOW, false)), another(key).find(), "new");
    age(file(key), Duration.ofHours(1));
    KeptCopyTimes second = another(key);
    assertEquals(Optional.of(due(SLOW)), second.find());
    assertEquals(TIMES, second.keep(TIMES));
    assertEquals(KEPT, another(key).find(), "just measured");
    age(file(key), Duration.ofHours(1));
    KeptCopyTimes third = another(key);
    assertEquals(Optional.of(due(TIMES)), third.find(), "the second did not confirm the first");
    assertEquals(TIMES, third.keep(TIMES));
    assertTrue(Files.exists(confirmed(key)));
    assertFalse(Files.exists(file(key)));
    age(confirmed(key), Duration.ofHours(1));
    assertEquals(KEPT, another(key).find(), "confirmed");
  }

  @Test
  void confirmedTimesAreInDoubtAfterAMeasurementThatDiffers() throws IOException {
    ProbeKey key = key("6.1.0", "17.0.1+12");
    another(key).keep(SLOW);
    KeptCopyTimes second = another(key);
    second.find();
    second.keep(SLOW);
    age(confirmed(key), Duration.ofDays(2));
    KeptCopyTimes third = another(key);
    assertEquals(Optional.of(due(SLOW)), third.find());
    assertEquals(TIMES, third.keep(TIMES));
    assertFalse(Files.exists(confirmed(key)));
    age(file(key), Duration.ofHours(1));
    assertEquals(Optional.of(due(TIMES)), another(key).find());
  }

  @Test
  void ranksThatMeasureAtTheSameTimeKeepTheLeastAndConfirmNothing() throws IOException {
    ProbeKey key = key("6.1.0", "17.0.1+12");
    List<KeptCopyTimes> ranks = List.of(another(key), another(key), another(key));
    ranks.forEach(rank -> assertEquals(Optional.empty(), rank.find()));
    assertEquals(SLOW, ranks.get(0).keep(SLOW));
    assertEquals(TIMES, ranks.get(1).keep(TIMES));
    assertEquals(TIMES, ranks.get(2).keep(TIMES));
    assertFalse(Files.exists(confirmed(key)));
    age(file(key), Duration.ofHours(1));
    assertEquals(Optional.of(due(TIMES)), another(key).find());
    assertEquals(KEPT, another(key).find(), "one process measures again");
  }

  @Test
  void aDateInTheFutureIsAnOldOne() throws IOException {
    ProbeKey key = key("6.1.0", "17.0.1+12");
    another(key).keep(TIMES);
    age(file(key), Duration.ofDays(-2));
    assertEquals(Optional.of(due(TIMES)), another(key).find());
  }

  @Test
  void aMachineWithoutAModelHasAKey() {
    ProbeKey key = ProbeKey.ofCopies(folder.resolve("none"), "6.1.0", "17");
    another(key).keep(TIMES);
    assertEquals(KEPT, another(key).find());
  }

  @Test
  void theProbesSettingTurnsItOff() {
    assertSame(CopyTimes.Store.NONE, of("0"));
    assertNotEquals(CopyTimes.Store.NONE, of("1"));
  }

  private static CopyTimes.Store of(String probe) {
    Settings settings = Settings.ofProcess(Map.of("NCCL4J_PROBE", probe));
    return KeptCopyTimes.of(new InitRequest("test", HostDevice.instance(), settings), 0);
  }
}
