package org.nccl4j.device.shm;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The kernel's settings of huge pages, which {@link MappedRegion#preferHugePages} asks for. */
public final class HugePages {
  /** The folder of the settings. */
  public static final Path SETTINGS = Path.of("/sys/kernel/mm/transparent_hugepage");

  private HugePages() {}

  /**
   * The reasons why memory has no huge pages, each with a remedy: of memory that processes share,
   * and of a process's own. None for a kernel without such pages, where nothing helps.
   *
   * @param settings the folder
   */
  public static List<String> obstacles(Path settings) {
    List<String> obstacles = new ArrayList<>();
    add(obstacles, settings.resolve("shmem_enabled"), "memory that processes share", "advise");
    add(obstacles, settings.resolve("enabled"), "a process's own memory", "madvise");
    return obstacles;
  }

  private static void add(List<String> obstacles, Path setting, String what, String better) {
    try {
      String text = Files.readString(setting); // such as: always [madvise] never
      if (text.contains("[never]") || text.contains("[deny]")) {
        obstacles.add(
            "takes small pages for %s, since %s is %s (write %s to it as root)"
                .formatted(what, setting, text.contains("[deny]") ? "deny" : "never", better));
      }
    } catch (IOException e) {
      return; // a kernel without huge pages, or a container without its settings
    }
  }
}
