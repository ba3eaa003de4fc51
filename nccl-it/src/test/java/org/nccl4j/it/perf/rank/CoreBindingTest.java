package org.nccl4j.it.perf.rank;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class CoreBindingTest {
  @Test
  void listsOfCoresAreUnderstood() {
    assertEquals(List.of(0, 1, 2, 3), CoreBinding.numbers("0-3"));
    assertEquals(List.of(0, 2, 3, 8), CoreBinding.numbers("0,2-3,8"));
    assertEquals(List.of(5), CoreBinding.numbers("5"));
  }

  @Test
  void coresThatAreOfflineAreLeftOut(@TempDir Path folder) throws IOException {
    Path file = folder.resolve("online");
    List<Integer> allowed = List.of(0, 1, 2, 3);
    assertEquals(allowed, CoreBinding.online(allowed, file), "a kernel without the file");
    Files.writeString(file, "0,2,4-5\n");
    assertEquals(List.of(0, 2), CoreBinding.online(allowed, file));
  }

  @Test
  void moreRanksThanCoresAreNotBound() {
    assertEquals(false, CoreBinding.bind(RankSpec.host(0, 100_000, 8)));
  }

  /** On a thread of its own, which then ends, so that no other test runs on one core. */
  @Test
  void aBoundThreadStaysOnOneCore() {
    String cores =
        CompletableFuture.supplyAsync(
                () -> {
                  assertTrue(CoreBinding.bind(RankSpec.host(0, 1, 8)));
                  return coresOfThisThread();
                },
                task -> new Thread(task).start())
            .join();
    assertEquals(1, CoreBinding.numbers(cores).size());
  }

  private static String coresOfThisThread() {
    try {
      return Files.readAllLines(Path.of("/proc/thread-self/status")).stream()
          .filter(line -> line.startsWith("Cpus_allowed_list:"))
          .map(line -> line.substring(line.indexOf(':') + 1).strip())
          .findFirst()
          .orElse("");
    } catch (IOException e) {
      return e.toString();
    }
  }
}
