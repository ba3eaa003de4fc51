package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.ReceivedError;
import org.nccl4j.operation.Operation;

/** The kinds of errors: each is used, and stays what it is on its way to others. */
@Timeout(600)
class ErrorIdTest {
  private static final Pattern USE = Pattern.compile("ErrorId\\.([A-Z_]+)");
  private static final Pattern MADE =
      Pattern.compile("new (\\w+Exception)\\(\\s*ErrorId\\.([A-Z_]+)");

  @Test
  void everyKindIsUsedWhereItBelongsAndHasANameOfItsOwn() throws IOException {
    Set<ErrorId> used = EnumSet.noneOf(ErrorId.class);
    try (Stream<Path> modules = Files.list(Path.of(".."))) {
      for (Path module :
          modules.filter(p -> p.getFileName().toString().startsWith("nccl-")).toList()) {
        try (Stream<Path> files = Files.walk(module.resolve("src/main/java"))) {
          files.filter(file -> file.toString().endsWith(".java")).forEach(file -> uses(file, used));
        }
      }
    }
    assertEquals(EnumSet.allOf(ErrorId.class), used);
    Set<String> texts = new HashSet<>();
    for (ErrorId id : ErrorId.values()) {
      assertTrue(texts.add(id.text()) && id.text().matches("NCCL4J-[A-Z-]+"), id.text());
    }
  }

  private static void uses(Path file, Set<ErrorId> used) {
    try {
      String text = Files.readString(file);
      Matcher found = USE.matcher(text);
      while (found.find()) {
        used.add(ErrorId.valueOf(found.group(1)));
      }
      Matcher made = MADE.matcher(text);
      while (made.find()) {
        NcclException one = ReceivedError.of(ErrorId.valueOf(made.group(2)), "", "");
        assertEquals(made.group(1), one.getClass().getSimpleName(), file + ": " + made.group());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void aKindKeepsItsClassAndItsNameWhenItIsThrownAgain() {
    for (ErrorId id : ErrorId.values()) {
      NcclException first = ReceivedError.of(id, "it broke", "mend it");
      NcclException second = first.again();
      assertSame(first.getClass(), second.getClass());
      assertEquals(id, second.id());
      assertEquals(id.code(), second.code());
      assertEquals("it broke. Remedy: mend it. [" + id.text() + "]", second.getMessage());
      assertEquals(id == ErrorId.ORDER_DIFFERS, second instanceof OrderMismatchException);
    }
    assertThrows(
        IllegalArgumentException.class,
        () -> new TimeoutException(ErrorId.CLOSED, "late", "hurry"));
  }

  @Test
  void whatUsersMeetMost() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofMillis(300));
    Ranks ranks = new Ranks(2, config);
    try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
      Communicator comm = ranks.communicators.get(0);
      assertKind(ErrorId.BUFFER, () -> sum(ranks, null));
      assertKind(ErrorId.RANK, () -> comm.send(data, 1, DataType.FLOAT32, 2, ranks.streams.get(0)));
      assertKind(
          ErrorId.ARGUMENT, () -> comm.chosenAlgorithm(Operation.SIGNAL, 1, DataType.FLOAT32));
      assertKind(ErrorId.SETTING, () -> CallOptions.defaults().withMaxCtas(0));
      assertKind(
          ErrorId.OPERATION,
          () -> {
            sum(ranks, data);
            ranks.streams.get(0).synchronize();
          });
      ranks.close();
      assertKind(ErrorId.CLOSED, () -> sum(ranks, data));
    } finally {
      ranks.close();
    }
  }

  private static void sum(Ranks ranks, DeviceMemory data) {
    ranks
        .communicators
        .get(0)
        .allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, ranks.streams.get(0));
  }

  private static void assertKind(ErrorId id, Runnable call) {
    NcclException e = assertThrows(NcclException.class, call::run);
    assertEquals(id, e.id(), e.toString());
    assertTrue(e.getMessage().endsWith("[" + id.text() + "]"), e.getMessage());
  }

  /** By sockets: what a rank hears of another is that it failed, and the cause is of its kind. */
  @Test
  void aKindTravelsToTheOtherRanks() {
    try (Ranks ranks = Ranks.onHosts("ab", CommunicatorConfig.defaults())) {
      ranks.communicators.get(0).revoke();
      Communicator other = ranks.communicators.get(1);
      NcclException heard = heard(other);
      assertEquals(ErrorId.RANK_FAILED, heard.id());
      NcclException cause = (NcclException) heard.getCause();
      assertEquals(ErrorId.REVOKED, cause.id());
      other.revoke();
      try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
        assertKind(
            ErrorId.REVOKED,
            () -> other.broadcast(data, data, 16, DataType.FLOAT32, 0, ranks.streams.get(1)));
      }
    }
  }

  private static NcclException heard(Communicator rank) {
    long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
    while (rank.asyncError().isEmpty() && System.nanoTime() - end < 0) {
      Thread.onSpinWait();
    }
    return rank.asyncError().orElseThrow();
  }

  /** A thread that goes on with the old communicator learns why it was shrunk. */
  @Test
  void theFailureBeforeAShrinkIsTheCauseOfLaterRefusals() {
    try (Ranks ranks = Ranks.onHosts("ab", CommunicatorConfig.defaults());
        DeviceMemory data = Ranks.floats(16, i -> 1)) {
      Communicator comm = ranks.communicators.get(0);
      ranks.communicators.get(1).abort();
      assertEquals(ErrorId.RANK_FAILED, heard(comm).id());
      comm.shrink(Set.of(1), ShrinkMode.ABORT).close();
      NcclException refusal =
          assertThrows(
              NcclException.class,
              () -> comm.broadcast(data, data, 16, DataType.FLOAT32, 0, ranks.streams.get(0)));
      assertEquals(ErrorId.REVOKED, refusal.id());
      assertTrue(refusal.problem().endsWith("by rank 0 in shrink"), refusal.problem());
      boolean told = false;
      for (Throwable each = refusal; each != null; each = each.getCause()) {
        told |= each instanceof NcclException error && error.id() == ErrorId.RANK_FAILED;
      }
      assertTrue(told, refusal.toString());
    }
  }
}
