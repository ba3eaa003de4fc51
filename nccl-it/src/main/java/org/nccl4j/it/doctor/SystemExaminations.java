package org.nccl4j.it.doctor;

import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.OptionalLong;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.device.os.ProcFile;
import org.nccl4j.device.shm.ProcessLimits;
import org.nccl4j.it.doctor.bind.CProbe;

/** Java, processor, memory, shared memory, and calls of native libraries. */
final class SystemExaminations {
  private static final long SHARED_WANTED = 256L << 20;
  private static final Path SHM = Path.of("/dev/shm");

  private SystemExaminations() {}

  /** True on Linux, where everything works that nccl4j has. */
  static boolean onLinux() {
    return System.getProperty("os.name", "").equals("Linux");
  }

  static List<Examination> all() {
    if (!onLinux()) {
      return List.of(
          new Examination("java", () -> List.of(java())),
          new Examination("cores", () -> List.of(cores())),
          new Examination("libc", () -> List.of(libc())));
    }
    return List.of(
        new Examination("java", () -> List.of(java())),
        new Examination("cores", () -> List.of(cores())),
        new Examination("memory", () -> List.of(memory())),
        new Examination("libc", () -> List.of(libc())),
        new Examination("memfd", () -> List.of(memfd())),
        new Examination("/dev/shm", () -> List.of(sharedMemory())),
        new Examination("locked memory", () -> List.of(lockedMemory())));
  }

  private static Finding java() {
    String detail =
        "%s of %s in %s"
            .formatted(
                Runtime.version(),
                System.getProperty("java.vendor"),
                System.getProperty("java.home"));
    String machine = System.getProperty("os.name") + " " + System.getProperty("os.arch");
    return switch (machine) {
      case "Linux amd64" -> Finding.ok("java", detail);
      case "Linux aarch64" ->
          Finding.warn(
              "java",
              detail + "; tested on aarch64 under emulation only",
              "use Linux on x86-64, or run your own tests first");
      default -> Finding.warn("java", detail + "; untested on " + machine, "use Linux on x86-64");
    };
  }

  private static Finding cores() {
    int cores = Runtime.getRuntime().availableProcessors();
    return cores > 1
        ? Finding.ok("cores", cores + " usable by this process")
        : Finding.warn(
            "cores",
            "1 usable by this process: ranks take turns",
            "raise the container's limit (docker run --cpus, taskset)");
  }

  private static Finding memory() {
    long total = ProcFile.bytes(ProcFile.MEMORY, "MemTotal");
    long free = ProcFile.bytes(ProcFile.MEMORY, "MemAvailable");
    return Finding.ok("memory", "total %s, available %s".formatted(size(total), size(free)));
  }

  private static Finding libc() {
    try {
      NativeLibrary.load(CProbe.class, NativeNames.LIBC);
      return Finding.ok("libc", "native functions can be called");
    } catch (NcclException e) {
      return Finding.missing(
          "libc",
          e.problem() + ": ranks of the host share no memory between processes",
          e.remedy());
    }
  }

  private static Finding memfd() {
    CProbe libc;
    try {
      libc = NativeLibrary.load(CProbe.class, NativeNames.LIBC);
    } catch (NcclException e) {
      return Finding.missing("memfd", "not tried: " + e.problem(), e.remedy());
    }
    int fd = libc.memfd_create("nccl4j-doctor", 0);
    if (fd < 0) {
      return Finding.warn(
          "memfd",
          "the kernel refuses memfd_create: processes share memory through /dev/shm instead",
          "allow memfd_create in the container's seccomp profile");
    }
    libc.close(fd);
    return Finding.ok("memfd", "processes can share memory without /dev/shm");
  }

  private static Finding sharedMemory() {
    String fix =
        "docker run --shm-size=1g, or in Kubernetes a volume emptyDir: {medium: Memory} at /dev/shm";
    try {
      FileStore store = Files.getFileStore(SHM);
      String detail =
          "%s free of %s".formatted(size(store.getUsableSpace()), size(store.getTotalSpace()));
      if (!Files.isWritable(SHM)) {
        return Finding.warn("/dev/shm", detail + ", but not writable", "chmod 1777 /dev/shm");
      }
      return store.getUsableSpace() >= SHARED_WANTED
          ? Finding.ok("/dev/shm", detail)
          : Finding.warn("/dev/shm", detail + ": too little where memfd cannot be used", fix);
    } catch (IOException e) {
      return Finding.warn("/dev/shm", "cannot be used (" + IoErrorText.of(e) + ")", fix);
    }
  }

  private static Finding lockedMemory() {
    OptionalLong limit = ProcessLimits.soft(ProcessLimits.LOCKED_MEMORY);
    return limit.isEmpty()
        ? Finding.ok("locked memory", "unlimited")
        : Finding.warn(
            "locked memory",
            "limited to %s: InfiniBand needs more".formatted(size(limit.getAsLong())),
            "ulimit -l unlimited, or docker run --ulimit memlock=-1; not needed on one machine");
  }

  private static String size(long bytes) {
    double gib = bytes / (double) (1 << 30);
    return gib < 0.1
        ? String.format(Locale.ROOT, "%.2f MiB", 1024 * gib)
        : String.format(Locale.ROOT, "%.1f GiB", gib);
  }
}
