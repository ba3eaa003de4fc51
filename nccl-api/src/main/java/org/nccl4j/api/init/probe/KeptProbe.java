package org.nccl4j.api.init.probe;

import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * A file with the result of an earlier probe.
 *
 * @param written when
 * @param lines with times, one of each operation, algorithm and protocol
 * @param unfinished whether the next creation measures more
 */
public record KeptProbe(Path file, Instant written, int lines, boolean unfinished) {
  /**
   * Finds the results for some GPUs under the conditions of this process, the last written first.
   * Several differ in the topology or the transports, which a creation finds.
   *
   * @param probe the value of NCCL4J_PROBE
   * @param settings that change the times
   */
  public static List<KeptProbe> find(String model, int nRanks, int probe, String settings) {
    return ProbeCache.ofUser()
        .beginning(
            ProbeKey.begin(
                model + Probing.suffix(probe), nRanks, CudaDevice.driverVersion(), settings));
  }
}
