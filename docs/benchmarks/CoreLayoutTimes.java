import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreLayout;
import org.nccl4j.device.os.ProcFile;

/** Times of reading the cores, caches and NUMA nodes of a machine, of a JVM that has started. */
public final class CoreLayoutTimes {
  private static final Path SYSTEM = Path.of("/sys/devices/system");
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  private CoreLayoutTimes() {}

  private static String time(String what, Runnable task) {
    long cpu = THREADS.getCurrentThreadCpuTime();
    long begin = System.nanoTime();
    task.run();
    long end = System.nanoTime();
    cpu = THREADS.getCurrentThreadCpuTime() - cpu;
    return String.format("%s %.2f ms (%.2f) ", what, cpu / 1e6, (end - begin) / 1e6);
  }

  /** Milliseconds of the processor, in brackets of the clock, for four layouts in turn. */
  public static void main(String[] arguments) throws Exception {
    // What a creation has done before: read files of /proc, linked a method reference, formatted.
    ProcFile.field(Path.of("/proc/self/status"), "Pid");
    Files.readString(Path.of("/proc/self/comm"));
    new ConcurrentHashMap<String, String>().computeIfAbsent("a", String::trim);
    time("nothing", () -> {});
    StringBuilder lines = new StringBuilder();
    for (int turn = 0; turn < 4; turn++) {
      CoreLayout layout = new CoreLayout(SYSTEM);
      lines
          .append(time("cores and domain", () -> AllowedCores.ofThisThread(layout)))
          .append(time("nodes", layout::hasNodes))
          .append(time("the same cores again", () -> AllowedCores.ofThisThread(layout)))
          .append(time("last caches", layout::lastCaches))
          .append('\n');
    }
    System.out.print(lines);
  }
}
