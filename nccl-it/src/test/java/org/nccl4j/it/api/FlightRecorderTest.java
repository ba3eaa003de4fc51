package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.it.cli.Main;

/** The rank that is behind is named on all ranks, at a deadline and by the command. */
@Timeout(600)
class FlightRecorderTest {
  private static CommunicatorConfig deadline(long millis) {
    return CommunicatorConfig.defaults()
        .withOperationTimeout(Duration.ofMillis(millis))
        .withName("flight");
  }

  @Test
  void aDeadlineSaysWhoIsBehindAndAllRanksHearIt() throws Throwable {
    LongerDeadline.retry(Duration.ofSeconds(2), FlightRecorderTest::assertAllHear);
  }

  private static void assertAllHear(Duration deadline) throws Exception {
    try (Ranks ranks = new Ranks(3, deadline(deadline.toMillis()))) {
      var tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
                  comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
                  stream.synchronize();
                  if (comm.rank() != 1) {
                    comm.allReduce(data, data, 8, DataType.FLOAT32, RedOp.MAX, stream);
                    stream.synchronize();
                  }
                }
              });
      tasks.get(1).get();
      for (int rank : new int[] {0, 2}) {
        ExecutionException e = assertThrows(ExecutionException.class, tasks.get(rank)::get);
        String message = e.getCause().getMessage();
        assertTrue(
            message.contains("rank 1 never called collective 2 (all_reduce of 8 float (max))"),
            message);
      }
      // Rank 1 has no operation under way, and hears of it all the same.
      long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
      while (ranks.communicators.get(1).asyncError().isEmpty() && System.nanoTime() < end) {
        Thread.onSpinWait();
      }
      NcclException heard = ranks.communicators.get(1).asyncError().orElseThrow();
      assertTrue(heard instanceof TimeoutException, heard.toString());
      assertTrue(heard.getMessage().contains("rank 1 never called"), heard.getMessage());
    }
  }

  @Test
  void theCommandReadsAProcessAndAFile(@TempDir Path directory) throws Exception {
    String pid = Long.toString(ProcessHandle.current().pid());
    try (Ranks ranks = new Ranks(2, deadline(300_000).withName("read"))) {
      var tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(64, i -> 1)) {
                  comm.allReduce(data, data, 64, DataType.FLOAT32, RedOp.SUM, stream);
                  stream.synchronize();
                  if (comm.rank() == 0) {
                    comm.recv(data, 64, DataType.FLOAT32, 1, stream);
                    comm.recv(data, 32, DataType.FLOAT32, 1, stream);
                    stream.synchronize();
                  }
                }
              });
      tasks.get(1).get();
      String text = awaitText("rank 0 waits for rank 1 in operation 2", "diagnose", "-t", pid);
      assertEquals(1, status("diagnose", pid), "rank 1 has waited for a second");
      assertTrue(text.contains("2: recv of 64 float from rank 1, waiting for rank 1\n"), text);
      assertTrue(text.contains("3: recv of 32 float from rank 1, enqueued\n"), text);
      assertTrue(text.contains("rank 1 has ended all 1 operations"), text);
      assertTrue(text.contains("1: all_reduce of 64 float (sum), done\n"), text);
      run("diagnose", "--save", directory.toString(), pid);
      Path file = directory.resolve("nccl4j-" + pid + ".flight");
      String twice = run("diagnose", "-t", pid, pid);
      // Other tests of this process may have left communicators.
      String read = twice.split("(?m)^communicator read: ", -1)[1].split("(?m)^communicator ")[0];
      assertEquals(2, read.split("rank 0 of 2, ", -1).length, twice);
      assertEquals(2, twice.split("(?m)^communicator read: ", -1).length, twice);
      Path copies = directory.resolve("copies");
      String both = run("diagnose", "--save", copies.toString(), file.toString());
      assertTrue(both.contains(file + " is not saved again: it is a file"), both);
      assertFalse(Files.exists(copies), "this process was not named");
      String fromFile = run("diagnose", file.toString());
      assertTrue(fromFile.contains("rank 0 waits for rank 1 in operation 2"), fromFile);
      assertTrue(fromFile.contains(" (process " + pid + ")"), fromFile);
      StringWriter out = new StringWriter();
      StringWriter unread = new StringWriter();
      String none = directory.resolve("none").toString();
      int status = Main.run(new PrintWriter(out), new PrintWriter(unread), "diagnose", none, pid);
      assertTrue(status != 0 && unread.toString().contains(none), unread.toString());
      assertTrue(out.toString().contains("rank 0 waits for rank 1"), out.toString());
      ranks.communicators.get(1).abort();
      FutureTask<Void> first = tasks.get(0);
      assertThrows(ExecutionException.class, first::get);
    }
    Path other = directory.resolve("other");
    Files.writeString(other, "no recorder");
    StringWriter err = new StringWriter();
    PrintWriter sink = new PrintWriter(new StringWriter());
    assertTrue(Main.run(sink, new PrintWriter(err), "diagnose", other.toString()) != 0);
    assertTrue(err.toString().contains("is not a copy of a flight recorder"), err.toString());
    Path none = directory.resolve("none");
    assertTrue(Main.run(sink, new PrintWriter(err), "diagnose", none.toString()) != 0);
    assertTrue(err.toString().contains("cannot be read: there is no " + none), err.toString());
  }

  @Test
  void aFailureIsWrittenToAFile(@TempDir Path directory) throws Exception {
    CommunicatorConfig config =
        deadline(300_000).with("NCCL4J_FLIGHT_FILE", directory.resolve("%p.flight").toString());
    Path file = directory.resolve(ProcessHandle.current().pid() + ".flight");
    try (Ranks ranks = new Ranks(2, config)) {
      ranks.communicators.get(0).abort();
      long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
      while (!Files.exists(file) && System.nanoTime() < end) {
        Thread.onSpinWait();
      }
      assertTrue(Files.size(file) > 0);
    }
  }

  /** As a program does that leaves its communicator's block by the error. */
  @Test
  void aFailureJustBeforeTheCloseIsWrittenToo(@TempDir Path directory) throws Exception {
    for (int time = 0; time < 5; time++) {
      Path file = directory.resolve("failure-" + time);
      CommunicatorConfig config = deadline(300_000).with("NCCL4J_FLIGHT_FILE", file.toString());
      try (Ranks ranks = new Ranks(2, config)) {
        ranks.communicators.get(0).abort();
      }
      assertTrue(Files.size(file) > 0);
    }
  }

  /** The purpose of the file: to find the culprit when the processes are gone. */
  @Test
  void theFileOfADeadlineNamesTheOperationAndTheRankThatIsBehind(@TempDir Path directory)
      throws Throwable {
    LongerDeadline.retry(
        Duration.ofSeconds(1),
        deadline -> assertFileNames(directory.resolve("failure-" + deadline), deadline));
  }

  private static void assertFileNames(Path file, Duration deadline) throws Exception {
    CommunicatorConfig config =
        deadline(deadline.toMillis()).with("NCCL4J_FLIGHT_FILE", file.toString());
    try (Ranks ranks = new Ranks(2, config)) {
      var tasks =
          ranks.start(
              (comm, stream) -> {
                try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
                  comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
                  stream.synchronize();
                  if (comm.rank() == 0) {
                    comm.allReduce(data, data, 8, DataType.FLOAT32, RedOp.MAX, stream);
                    stream.synchronize();
                  }
                }
              });
      tasks.get(1).get();
      assertThrows(ExecutionException.class, tasks.get(0)::get);
    }
    String text = run("diagnose", "-t", file.toString());
    assertTrue(
        text.contains("rank 1 never called collective 2 (all_reduce of 8 float (max))"), text);
    assertTrue(text.contains("2: all_reduce of 8 float (max), waiting for rank 1\n"), text);
    assertTrue(text.contains(" failed"), text);
    assertEquals(1, status("diagnose", file.toString()));
  }

  private static String run(String... arguments) {
    StringWriter out = new StringWriter();
    Main.run(new PrintWriter(out, true), new PrintWriter(out, true), arguments);
    return out.toString();
  }

  private static int status(String... arguments) {
    PrintWriter sink = new PrintWriter(new StringWriter());
    return Main.run(sink, sink, arguments);
  }

  private static String awaitText(String expected, String... arguments) {
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    String text;
    do {
      text = run(arguments);
    } while (!text.contains(expected) && System.nanoTime() < end);
    return text;
  }
}
