package org.nccl4j.topo.detect;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.nccl4j.topo.CNumber;

/**
 * Finds GPUs on PCI, for machines whose driver is not used: addresses and generations, but no
 * NVLinks.
 */
public final class GpuScan {
  private static final String NVIDIA = "0x10de";

  /** Compute capability by the first PCI device number of a range, ascending. */
  private static final int[][] GENERATIONS = {
    {0x15f0, 60}, {0x1b00, 61}, {0x1d80, 70}, {0x1e00, 75}, {0x20b0, 80}, {0x2200, 86},
    {0x2300, 90}, {0x2400, 86}, {0x2680, 89}, {0x2900, 100}, {0x2b00, 120}, {0x2e00, 121}
  };

  private GpuScan() {}

  /** The GPUs by address. */
  public static List<GpuFacts> of(SysFiles files) {
    List<GpuFacts> gpus = new ArrayList<>();
    for (String busId : files.list("bus/pci/devices")) {
      String folder = "bus/pci/devices/" + busId + "/";
      boolean gpu =
          files.sys(folder + "vendor").equals(NVIDIA)
              && files.sys(folder + "class").startsWith("0x03");
      if (gpu) {
        int device = (int) CNumber.hex(files.sys(folder + "device"));
        int dev = gpus.size();
        gpus.add(new GpuFacts(busId, dev, dev, generation(device), true, Map.of(), 0, 0));
      }
    }
    return gpus;
  }

  private static int generation(int device) {
    int sm = 50;
    for (int[] range : GENERATIONS) {
      sm = device >= range[0] ? range[1] : sm;
    }
    return sm;
  }
}
