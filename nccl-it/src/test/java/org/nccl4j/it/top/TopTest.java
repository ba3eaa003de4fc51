package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.api.RankJvm;
import org.nccl4j.it.cli.Main;

/** The output of {@code nccl top} on this process's communicators. */
@Timeout(600)
class TopTest {
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  private record Said(int status, String text) {}

  private static Said top(String... arguments) {
    StringWriter out = new StringWriter();
    PrintWriter to = new PrintWriter(out, true);
    String[] command = new String[arguments.length + 1];
    command[0] = "top";
    System.arraycopy(arguments, 0, command, 1, arguments.length);
    int status = Main.run(to, to, command);
    return new Said(status, out.toString());
  }

  private static String pid() {
    return Long.toString(ProcessHandle.current().pid());
  }

  /** Two ranks of this process all-reduce until a frame shows their bandwidth. */
  @Test
  void operationsOfThisProcess() throws Exception {
    WorkingRanks ranks = new WorkingRanks("watched");
    try {
      long end = System.nanoTime() + PATIENCE_NANOS;
      Said said;
      do {
        said = top("-n", "1", "-i", "0.2", pid());
      } while (!said.text().matches("(?s).*communicator watched, 2 ranks: [1-9][0-9]* op.*")
          && System.nanoTime() < end);
      assertEquals(0, said.status(), said.text());
      assertTrue(said.text().contains("communicator watched, 2 ranks: "), said.text());
      assertTrue(said.text().contains("all_reduce of 1024 int32"), said.text());
      Said json = top("-n", "2", "-i", "0.2", "--json", pid());
      assertEquals(2, json.text().lines().count(), json.text());
      assertTrue(json.text().contains("\"name\":\"watched\",\"nRanks\":2"), json.text());
      assertTrue(json.text().contains("\"links\":[{\"peer\":1,\"transport\":\"P2P\""), json.text());
      Said twice = top("-n", "1", "-i", "0.2", "--json", pid(), pid());
      // Other tests of this process may have left communicators.
      String watched = twice.text().replaceAll("(?s).*\"name\":\"watched\"", "");
      watched = watched.split("\"name\":", 2)[0];
      assertEquals(3, watched.split("\"links\":", -1).length, "two ranks: " + twice.text());
    } finally {
      ranks.close();
    }
  }

  /** By the id of the job, and with the id in the standard input, which other users cannot see. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aJobByItsId(boolean fromInput) throws Exception {
    UniqueId id = UniqueId.create(CommunicatorConfig.defaults().with("NCCL4J_JOB_STATE", "1"));
    WorkingRanks ranks = new WorkingRanks(id, "of a job");
    InputStream before = System.in;
    try {
      String job = fromInput ? "-" : id.toString();
      long end = System.nanoTime() + PATIENCE_NANOS;
      Said said;
      do {
        System.setIn(new ByteArrayInputStream((id + "\n").getBytes(StandardCharsets.UTF_8)));
        said = top("-n", "1", "-i", "0.2", "--job", job);
      } while (!said.text().matches("(?s).*communicator of a job, 2 ranks: [1-9][0-9]* op.*")
          && System.nanoTime() < end);
      assertEquals(0, said.status(), said.text());
      assertTrue(said.text().contains("communicator of a job, 2 ranks: "), said.text());
      assertTrue(said.text().contains("all_reduce of 1024 int32"), said.text());
    } finally {
      System.setIn(before);
      ranks.close();
    }
  }

  /** A root without ranks, which has ended, as the one of a host that is gone. */
  @Test
  void aRootThatIsGoneIsNamed() throws Exception {
    UniqueId id = UniqueId.create(CommunicatorConfig.defaults().with("NCCL4J_JOB_STATE", "1"));
    UniqueId gone = UniqueId.create();
    Communicator.initRank(1, gone, 0, Devices.host(), CommunicatorConfig.defaults()).close();
    WorkingRanks ranks = new WorkingRanks(id, "of a job");
    try {
      String[] roots = {"--job", id.toString(), "--job", gone.toString()};
      topUntil("communicator of a job, ", "no answer of the root at ", roots);
      String[] json = {"--json", roots[0], roots[1], roots[2], roots[3]};
      topUntil("\"name\":\"of a job\"", "\"unreachedRoots\":[{\"root\":\"", json);
    } finally {
      ranks.close();
    }
  }

  /** Watches until one frame has both texts: on a busy machine ranks may answer late. */
  private static void topUntil(String first, String second, String... options) {
    String[] command = {"-n", "1", "-i", "0.2"};
    int before = command.length;
    command = Arrays.copyOf(command, before + options.length);
    System.arraycopy(options, 0, command, before, options.length);
    long end = System.nanoTime() + PATIENCE_NANOS;
    Said said;
    do {
      said = top(command);
    } while (!(said.status() == 0 && said.text().contains(first) && said.text().contains(second))
        && System.nanoTime() < end);
    assertEquals(0, said.status(), said.text());
    assertTrue(said.text().contains(first), said.text());
    assertTrue(said.text().contains(second), said.text());
  }

  private static Process other() throws Exception {
    List<String> command = RankJvm.command();
    command.addAll(List.of("org.nccl4j.it.api.EndingRank", "1"));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    RankJvm.awaitReady(process);
    return process;
  }

  /** Each frame that is printed; the other process is killed after the first. */
  private static final class KillingWriter extends StringWriter {
    private final Process killed;

    KillingWriter(Process killed) {
      this.killed = killed;
    }

    @Override
    public void flush() {
      killed.destroyForcibly().onExit().join();
    }
  }

  /** One that ends does not end the view of the others, and the last one does. */
  @Test
  void processesThatEnd() throws Exception {
    WorkingRanks ranks = new WorkingRanks("watched");
    Process other = other();
    Process last = other();
    try {
      StringWriter out = new KillingWriter(other);
      PrintWriter to = new PrintWriter(out);
      String pid = Long.toString(other.pid());
      assertEquals(
          0, Main.run(to, to, "top", "--json", "-n", "3", "-i", "0.1", pid, pid()), out::toString);
      List<String> frames = out.toString().lines().toList();
      assertEquals(3, frames.size(), out::toString);
      assertTrue(frames.get(2).contains("\"name\":\"watched\""), out::toString);
      StringWriter ending = new KillingWriter(last);
      to = new PrintWriter(ending);
      assertEquals(
          0,
          Main.run(to, to, "top", "--json", "-i", "0.1", Long.toString(last.pid())),
          ending::toString);
    } finally {
      other.destroyForcibly();
      last.destroyForcibly();
      ranks.close();
    }
  }

  @ParameterizedTest
  @CsvSource({
    "-i 0, --interval must be 0.1 to 3600",
    "-i NaN, --interval must be 0.1 to 3600",
    "-n -1, --frames must be 0 or more",
    "--web 70000, --web must be 0 to 65535",
    "--web 0 --json, --web must be used without --json",
    "--machine m.xml, --machine must be used with --web",
    "--web 0 --machine /absent.xml -n 1, /absent.xml",
    "--job x 1, --job must be used without processes",
    "-n 1 2147483647, process 2147483647 has no flight recorder that can be read",
    "one, is one argument too many"
  })
  void badInput(String arguments, String told) {
    Said said = top(arguments.split(" "));
    assertTrue(said.status() != 0);
    assertTrue(said.text().contains(told), said.text());
  }
}
