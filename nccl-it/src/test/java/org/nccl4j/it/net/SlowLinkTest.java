package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.it.api.RankJvm;
import org.nccl4j.it.cli.Main;

/** {@code nccl diagnose --job} on a running ring of which one link is throttled. */
@Timeout(600)
class SlowLinkTest {
  /** Of all questions together; below the test's timeout. */
  private static final long PATIENCE_NANOS = 500_000_000_000L;

  private static final List<String> THROTTLED = List.of("1 -> 2");

  /** Bytes that a ring's link moves in an all-reduce. */
  private static final long BYTES =
      2L * (ThrottledRanks.RANKS - 1) * 4 * ThrottledRanks.COUNT / ThrottledRanks.RANKS;

  @TempDir private Path services;
  private UniqueId id;
  private Process ranks;
  private long end;

  @BeforeEach
  void start() throws Exception {
    Path file = services.resolve("META-INF/services").resolve(NetProvider.class.getName());
    Files.createDirectories(file.getParent());
    Files.writeString(file, ThrottledNet.class.getName() + "\n");
    end = System.nanoTime() + PATIENCE_NANOS;
    id = UniqueId.create(CommunicatorConfig.defaults().with("NCCL4J_JOB_STATE", "1"));
    List<String> command = RankJvm.command(services);
    command.addAll(List.of(ThrottledRanks.class.getName(), id.toString()));
    ProcessBuilder builder = new ProcessBuilder(command);
    builder.environment().keySet().removeIf(name -> name.startsWith("NCCL"));
    ranks =
        builder
            .redirectOutput(ProcessBuilder.Redirect.INHERIT)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
  }

  @AfterEach
  void end() throws InterruptedException {
    ranks.destroyForcibly().waitFor();
  }

  /** Asks until the answer has these words: a link is not slow at each time on a busy machine. */
  private String diagnoseUntil(String words, String... options) {
    List<String> command = new ArrayList<>(List.of("diagnose"));
    command.addAll(List.of(options));
    StringWriter out;
    int status;
    do {
      out = new StringWriter();
      PrintWriter to = new PrintWriter(out, true);
      status = Main.run(to, to, command.toArray(String[]::new));
    } while ((status != 0 || !out.toString().contains(words)) && System.nanoTime() < end);
    assertEquals(0, status, out.toString());
    return out.toString();
  }

  private Traffic sent(JobReport job, int rank) {
    RankReport report = job.communicators().get(0).ranks().get(rank);
    int next = (rank + 1) % ThrottledRanks.RANKS;
    return report.links().traffic().stream()
        .filter(each -> each.peer() == next)
        .findFirst()
        .orElseThrow();
  }

  /** The slow links of a report. */
  private static List<String> slow(JobReport job) {
    return job.communicators().stream()
        .flatMap(each -> each.speeds().slow().stream())
        .map(each -> each.speed().rank() + " -> " + each.speed().link().peer())
        .toList();
  }

  /** True if all links move the same, and their ranks wait for one of them. */
  private boolean isEvenButForTime(JobReport job) {
    Traffic throttled = sent(job, 1);
    boolean isEven = true;
    for (int rank = 0; rank < ThrottledRanks.RANKS; rank++) {
      Traffic link = sent(job, rank);
      isEven &= Math.abs(link.bytes() - throttled.bytes()) <= 2 * BYTES;
      isEven &= rank == 1 || link.underWayMillis() < throttled.underWayMillis();
    }
    return isEven;
  }

  /** Asks until a report of all ranks is so. */
  private JobReport askUntil(Predicate<JobReport> so) {
    Object answer;
    do {
      assertTrue(ranks.isAlive(), "the ranks have ended");
      try {
        JobReport job = JobReport.ask(List.of(id.toString()), Settings.ofProcess(Map.of()));
        if (isWhole(job) && so.test(job)) {
          return job;
        }
        answer = job;
      } catch (SystemErrorException e) {
        answer = e; // on a busy machine nobody may answer in time
      }
    } while (System.nanoTime() < end);
    throw new AssertionError("no report of all ranks with the slow link: " + answer);
  }

  /** True if each rank has answered and has sent to the next one. */
  private static boolean isWhole(JobReport job) {
    if (job.communicators().isEmpty()) {
      return false;
    }
    List<RankReport> ranks = job.communicators().get(0).ranks();
    boolean isWhole = job.silent().isEmpty() && ranks.size() == ThrottledRanks.RANKS;
    for (int rank = 0; isWhole && rank < ranks.size(); rank++) {
      int next = (rank + 1) % ThrottledRanks.RANKS;
      isWhole = ranks.get(rank).links().traffic().stream().anyMatch(each -> each.peer() == next);
    }
    return isWhole;
  }

  @Test
  void aThrottledLinkIsNamedWhileTheJobRuns() {
    // A link whose rank gets no processor is slow, too, but not for long.
    JobReport job = askUntil(each -> slow(each).equals(THROTTLED));
    assertEquals("NET/Throttled/lo", sent(job, 1).way());
    // The links of a report are looked at one after the other, on a busy machine far apart.
    askUntil(each -> slow(each).containsAll(THROTTLED) && isEvenButForTime(each));
    String slow = "  slow link: rank 1 -> rank 2 (NET/Throttled/lo): ";
    String text = diagnoseUntil(slow, "--job", id.toString());
    assertTrue(text.contains(slow), text);
    String here = diagnoseUntil(slow, Long.toString(ranks.pid()));
    assertTrue(here.contains(slow), here);
  }
}
