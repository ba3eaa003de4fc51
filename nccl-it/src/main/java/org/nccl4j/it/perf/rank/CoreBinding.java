package org.nccl4j.it.perf.rank;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
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
 * each hand-over then costs a switch between them. Threads that the engine starts for a rank
 * inherit its binding; those that ranks of one process share are to be there before.
 */
public final class CoreBinding {
  private static final int MASK_BYTES = 128;

  private CoreBinding() {}

  /**
   * Binds the calling thread, and those that it starts from now on.
   *
   * @return whether it could be done
   */
  public static boolean bind(RankSpec spec) {
    List<Integer> cores = allowed();
    if (cores.size() < spec.nRanks()) {
      return false;
    }
    int core = cores.get(spec.rank());
    if (core >= MASK_BYTES * 8) {
      return false;
    }
    byte[] mask = new byte[MASK_BYTES];
    mask[core / 8] = (byte) (1 << core % 8);
    try (DeviceMemory memory = Devices.host().allocate(MASK_BYTES)) {
      memory.write(0, ByteBuffer.wrap(mask));
      Scheduling libc = NativeLibrary.load(Scheduling.class, NativeNames.LIBC);
      return libc.sched_setaffinity(0, MASK_BYTES, memory.address()) == 0;
    } catch (NcclException | LinkageError e) {
      return false;
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
