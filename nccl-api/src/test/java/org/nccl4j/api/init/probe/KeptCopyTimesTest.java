package org.nccl4j.api.init.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
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

  private Path file(ProbeKey key) {
    return new ProbeCache(Optional.of(folder.resolve("nccl4j"))).file(key).orElseThrow();
  }

  @Test
  void anotherProcessOfTheMachineFindsTheTimes() throws IOException {
    ProbeKey key = key("6.1.0", "17.0.1+12");
    assertEquals(Optional.empty(), another(key).find());
    another(key).keep(TIMES);
    assertEquals(Optional.of(TIMES), another(key("6.1.0", "17.0.1+12")).find());
    assertEquals(
        "# probe 2 of 2 AMD EPYC 9R14 (family 25, model 17), kernel 6.1.0, Java 17.0.1+12, nccl4j",
        Files.readAllLines(file(key)).get(0).replaceAll(" nccl4j .*", " nccl4j"));
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
    assertEquals(Optional.of(TIMES), another(key("6.1.0", "17.0.1+12")).find());
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
    assertEquals(Optional.of(TIMES), another(key).find());
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
  void aMachineWithoutAModelHasAKey() {
    ProbeKey key = ProbeKey.ofCopies(folder.resolve("none"), "6.1.0", "17");
    another(key).keep(TIMES);
    assertEquals(Optional.of(TIMES), another(key).find());
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
