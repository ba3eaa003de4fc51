package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/**
 * Communicators of more GPUs than are all connected at once, with the fake in place of the driver.
 */
@Timeout(600)
@EnabledOnOs(OS.LINUX)
class GpuLateConnectTest {
  /** To the root, to the next rank and from the one before, at both ends, and a listening one. */
  private static final int BOOTSTRAP_SOCKETS = 5;

  /** Two in the ring, three in each tree, two at each of six distances of PAT. */
  private static final int MOST_NEIGHBOURS = 20;

  @TempDir static Path folder;

  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private static long sockets(Ran ran, String when) {
    Matcher line = Pattern.compile("(?m)^" + when + " (\\d+)$").matcher(ran.output());
    assertTrue(line.find(), ran.output());
    return Long.parseLong(line.group(1));
  }

  private static Ran run(int n) throws Exception {
    Ran ran = FakeGpuProcess.in(folder).run(Map.of(), LateGpuRanks.class, Integer.toString(n));
    assertEquals(0, ran.status(), ran.output());
    assertEquals(0, ran.calls().stream().filter(call -> call.contains("misuse")).count());
    return ran;
  }

  /** One-shot is chosen for all that are connected at creation, and refused among more. */
  @Test
  void oneShotGoesUpToAllThatAreConnectedAtCreation() {
    assertTrue(ScaleSettings.MOST_CONNECTED_GPUS <= KernelLayout.INLINE_PEERS + 1);
  }

  /** So many ranks of one process take minutes of two busy cores. */
  @Test
  @Tag("slow")
  void messagesConnectRanksThatNoRingDoes() throws Exception {
    int n = 40;
    Ran ran = run(n);
    long made = sockets(ran, "made");
    assertTrue(made <= (long) n * (BOOTSTRAP_SOCKETS + MOST_NEIGHBOURS), ran.output());
    assertEquals(made, sockets(ran, "reduced"), "rings and trees are connected");
    assertEquals(made + n, sockets(ran, "sent"), "a socket for each rank and its partner");
    assertEquals(made + n, sockets(ran, "again"));
    assertEquals(made + n + 2, sockets(ran, "captured"));
    long registered = sockets(ran, "registered");
    assertTrue(registered <= made + n + 3, ran.output()); // the JDK's own is there now
    // Two for a rank and its other, and those of calls that are not closed yet.
    assertTrue(sockets(ran, "put") <= registered + 4 * n, ran.output());
    assertTrue(ran.output().contains("split into 4"), ran.output());
    assertTrue(sockets(ran, "left") < n / 2, ran.output());
  }

  @Test
  void fewRanksAreAllConnectedAtCreation() throws Exception {
    Ran ran = run(20);
    assertEquals(sockets(ran, "made"), sockets(ran, "captured"));
    assertTrue(sockets(ran, "registered") >= sockets(ran, "captured") + 20 * 18, "for puts too");
    assertTrue(sockets(ran, "made") >= 20 * 18, "all ranks of other hosts");
  }
}
