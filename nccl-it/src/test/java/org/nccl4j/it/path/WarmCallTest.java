package org.nccl4j.it.path;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess;

/** ARCHITECTURE.md lists the files that a warm all-reduce goes through, and they are few. */
@Timeout(600)
class WarmCallTest {
  private static final int MOST = 12;
  private static final String OURS = "org.nccl4j.";
  private static final String KERNELS = OURS + "device.host.kernel.algorithm.";
  private static final String LAUNCH = OURS + "device.cuda.driver.DriverLibrary.launch";
  private static final Pattern FILE = Pattern.compile("`(\\w+)`");

  @TempDir static Path folder;

  @Test
  void theHostsKernelIsFewFilesAway() throws Exception {
    List<String> entered = traced(new FakeGpuProcess(folder), "host");
    assertPath("To the loop of the host's kernel:", entered, KERNELS);
  }

  @Test
  void theDriversLaunchIsFewFilesAway() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    List<String> entered = traced(FakeGpuProcess.in(folder), "cuda");
    assertPath("To cuLaunchKernelEx:", entered, LAUNCH);
  }

  private static List<String> traced(FakeGpuProcess process, String device) throws Exception {
    String output = process.run(Map.of("NCCL_ALGO", "Ring"), WarmCall.class, device).output();
    return output
        .lines()
        .filter(line -> line.startsWith(OURS) && !line.startsWith(WarmCall.class.getName()))
        .toList();
  }

  private static void assertPath(String title, List<String> entered, String end) throws Exception {
    Set<String> files = new LinkedHashSet<>();
    boolean ended = false;
    for (String method : entered) {
      if (!ended) {
        files.add(file(method));
        ended = method.startsWith(end);
      }
    }
    assertTrue(ended, "the call comes to " + end + ": " + entered);
    assertEquals(listed(title), new ArrayList<>(files), "the list in ARCHITECTURE.md: " + title);
    assertTrue(files.size() <= MOST, files.size() + " files: " + files);
  }

  /** The name of the file that has a method. */
  private static String file(String method) {
    String type = method.substring(0, method.lastIndexOf('.')).replaceFirst("\\$.*", "");
    return type.substring(type.lastIndexOf('.') + 1);
  }

  /** The names in a line of ARCHITECTURE.md, which goes on to the next empty line. */
  private static List<String> listed(String title) throws Exception {
    String text = Files.readString(Path.of("..", "ARCHITECTURE.md"));
    int begin = text.indexOf(title);
    assertTrue(begin >= 0, "ARCHITECTURE.md has: " + title);
    Matcher names = FILE.matcher(text.substring(begin, text.indexOf("\n\n", begin)));
    List<String> found = new ArrayList<>();
    while (names.find()) {
      found.add(names.group(1));
    }
    return found;
  }

  /** Methods that are accessors, and methods that are none. */
  static final class Samples {
    int number;
    Samples other;

    int number() {
      return number;
    }

    int numberOfOther() {
      if (other == null) {
        throw new IllegalStateException("no other of " + this);
      }
      return other.number() + 1;
    }

    void set(int to) {
      number = to;
    }

    int sum() {
      int sum = 0;
      for (Samples each = this; each != null; each = each.other) {
        sum += each.number;
      }
      return sum;
    }

    int hash() {
      return hashCode();
    }

    void setIndirectly() {
      set(1);
    }
  }

  @Test
  void anAccessorStoresNothingAndCallsAccessors() {
    Accessors accessors = new Accessors(Samples.class.getClassLoader());
    String samples = Samples.class.getName().replace('.', '/');
    assertTrue(accessors.has(samples, "number", "()I"));
    assertTrue(accessors.has(samples, "numberOfOther", "()I"));
    assertFalse(accessors.has(samples, "set", "(I)V"));
    assertFalse(accessors.has(samples, "sum", "()I"));
    assertFalse(accessors.has(samples, "hash", "()I"));
    assertFalse(accessors.has(samples, "setIndirectly", "()V"));
  }
}
