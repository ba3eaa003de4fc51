package org.nccl4j.it.perf.rank;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.os.ProcFile;
import org.nccl4j.it.perf.rank.bind.Scheduling;

/**
 * Keeps each rank on a core of its own where there are enough, as mpirun does: otherwise the kernel
 * may put two ranks that wait for each other on one core while another program has the other, and
 * each hand-over then costs a switch between them. Threads inherit the binding of the thread that
 * starts them.
 */
public final class CoreBinding {
  private static final int MASK_BYTES = 128;
  private static final int THIS_THREAD = 0;
  private static final Path THREADS = Path.of("/proc/self/task");
  private static final Path ONLINE = Path.of("/sys/devices/system/cpu/online");

  private CoreBinding() {}

  /** The time at which ranks are bound. */
  public enum Time {
    NEVER,

    /**
     * Before the communicator is created, which then knows the ranks' caches and NUMA nodes, and
     * has memory on these.
     */
    BEFORE_CREATION,

    /** Afterwards, since sockets count the cores that the rank's process may use. */
    AFTER_CREATION
  }

  /** True if each rank can have a core. */
  static boolean hasCores(RankSpec spec) {
    return usable().size() >= spec.nRanks();
  }

  /**
   * Binds the calling thread, and those that it starts from now on.
   *
   * @return whether it could be done
   */
  public static boolean bind(RankSpec spec) {
    return hasCores(spec) && bind(THIS_THREAD, List.of(usable().get(spec.rank())));
  }

  private static boolean bind(int thread, List<Integer> cores) {
    byte[] mask = new byte[MASK_BYTES];
    for (int core : cores) {
      if (core >= MASK_BYTES * 8) {
        return false;
      }
      mask[core / 8] |= (byte) (1 << core % 8);
    }
    try (DeviceMemory memory = Devices.host().allocate(MASK_BYTES)) {
      memory.write(0, ByteBuffer.wrap(mask));
      Scheduling libc = NativeLibrary.load(Scheduling.class, NativeNames.LIBC);
      return libc.sched_setaffinity(thread, MASK_BYTES, memory.address()) == 0;
    } catch (NcclException | LinkageError e) {
      return false;
    }
  }

  /** The threads of this process, by the kernel's numbers; none if they cannot be found out. */
  static Set<Integer> threads() {
    try (Stream<Path> threads = Files.list(THREADS)) {
      return threads
          .map(thread -> Integer.parseInt(thread.getFileName().toString()))
          .collect(Collectors.toSet());
    } catch (IOException | UncheckedIOException e) {
      return Set.of();
    }
  }

  /**
   * Lets threads run on all cores of this process that have started since, such as proxies and
   * those that all ranks of the process share: on a rank's core they would take turns with it.
   *
   * @param before the threads that were there already, the ranks' among them
   */
  static void releaseOthers(Set<Integer> before) {
    Set<Integer> started = new TreeSet<>(before.isEmpty() ? Set.of() : threads());
    started.removeAll(before);
    List<Integer> cores = allowed();
    started.forEach(thread -> bind(thread, cores)); // one that has ended cannot be bound
  }

  private static List<Integer> usable() {
    return online(allowed(), ONLINE);
  }

  /**
   * Those of some cores that are online: the kernel binds no thread to others, which the list of an
   * unbound process has too, such as places for processors of a virtual machine.
   *
   * @param file the kernel's list of them; if it cannot be read, all are
   */
  static List<Integer> online(List<Integer> cores, Path file) {
    try {
      List<Integer> online = numbers(Files.readString(file).strip());
      return cores.stream().filter(online::contains).toList();
    } catch (IOException | IllegalArgumentException e) {
      return cores;
    }
  }

  /** The cores that this process may use, ascending; none if that cannot be found out. */
  private static List<Integer> allowed() {
    return ProcFile.field(Path.of("/proc/self/status"), "Cpus_allowed_list")
        .map(CoreBinding::numbers)
        .orElse(List.of());
  }

  /** The numbers of a list such as "0-3,8". */
  static List<Integer> numbers(String list) {
    List<Integer> numbers = new ArrayList<>();
    for (String range : list.split(",")) {
      String[] ends = range.split("-");
      int last = Integer.parseInt(ends[ends.length - 1]);
      for (int number = Integer.parseInt(ends[0]); number <= last; number++) {
        numbers.add(number);
      }
    }
    return numbers;
  }
}
