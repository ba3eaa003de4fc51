package org.nccl4j.api.init;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

class CleanupStackTest {
  private final List<String> calls = new ArrayList<>();
  private final CleanupStack undo = new CleanupStack();
  private final NcclException cause =
      new InvalidUsageException(ErrorId.CLOSED, "it fails", "let it");

  private NcclException failed(Consumer<NcclException> tell) {
    return assertThrows(
        NcclException.class,
        () ->
            undo.made(
                "c",
                () -> {
                  throw cause;
                },
                tell));
  }

  private void push(String... names) {
    for (String name : names) {
      undo.push(() -> calls.add(name));
    }
  }

  @Test
  void theLastIsFreedFirstOnceTheOtherRanksKnow() {
    push("bootstrap", "transport", "kernels", "windows");
    assertSame(cause, failed(e -> calls.add("told " + e.problem())));
    assertEquals(List.of("told it fails", "windows", "kernels", "transport", "bootstrap"), calls);
  }

  @Test
  void oneStepInThePlaceOfSeveral() {
    push("bootstrap");
    int before = undo.size();
    push("transport", "kernels");
    undo.replace(before, () -> calls.add("resources"));
    push("windows");
    failed(e -> {});
    assertEquals(List.of("windows", "resources", "bootstrap"), calls);
  }

  @Test
  void nothingIsFreedOfWhatWasMade() {
    push("bootstrap");
    assertEquals("made", undo.made("c", () -> "made", e -> calls.add("told")));
    assertEquals(List.of(), calls);
  }

  @Test
  void everythingIsFreedWhereTheOtherRanksCannotBeTold() {
    push("bootstrap", "kernels");
    RuntimeException broken = new IllegalStateException("no bootstrap");
    NcclException got =
        failed(
            e -> {
              throw broken;
            });
    assertSame(cause, got);
    assertSame(broken, got.getSuppressed()[0]);
    assertEquals(List.of("kernels", "bootstrap"), calls);
  }

  @Test
  void everythingIsFreedWhereAStepFails() {
    Error error = new LinkageError("no class");
    RuntimeException exception = new IllegalStateException("broken context");
    push("bootstrap");
    undo.push(
        () -> {
          throw error;
        });
    push("transport");
    undo.push(
        () -> {
          throw exception;
        });
    NcclException got = failed(e -> calls.add("told"));
    assertEquals(List.of("told", "transport", "bootstrap"), calls);
    assertEquals(List.of(exception, error), List.of(got.getSuppressed()));
  }

  @Test
  void anErrorIsTheCauseOfAnInternalError() {
    push("bootstrap");
    Error error = new LinkageError("no class");
    NcclException got =
        assertThrows(
            InternalErrorException.class,
            () ->
                undo.made(
                    "c",
                    () -> {
                      throw error;
                    },
                    e -> calls.add("told")));
    assertSame(error, got.getCause());
    assertEquals(List.of("told", "bootstrap"), calls);
  }
}
