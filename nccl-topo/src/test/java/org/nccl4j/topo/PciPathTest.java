package org.nccl4j.topo;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Places in a tree of buses as the kernel has it. */
class PciPathTest {
  /** A root port with a switch, whose second downstream port has another switch below it. */
  private static final String SWITCH = "pci0000:00/0000:00:01.0/0000:01:00.0/";

  private static final String INNER = SWITCH + "0000:02:01.0/0000:04:00.0/";

  @TempDir private Path devices;

  private PciPath place(String text, String numa) throws IOException {
    Path folder = devices.resolve(text.replace("SWITCH/", SWITCH).replace("INNER/", INNER));
    Files.createDirectories(folder);
    Files.writeString(folder.resolve("numa_node"), numa + "\n");
    return new PciPath(folder);
  }

  @ParameterizedTest
  @CsvSource({
    "SWITCH/0000:02:00.0/0000:03:00.0, 0, SWITCH/0000:02:00.0/0000:03:00.0, 0, LOC",
    "SWITCH/0000:02:00.0/0000:03:00.0, 0, SWITCH/0000:02:00.0/0000:03:00.1, 0, NVL",
    "SWITCH/0000:02:00.0/0000:03:00.0, 0, SWITCH/0000:02:02.0/0000:07:00.0, 0, PIX",
    "INNER/0000:05:00.0/0000:06:00.0, 0, INNER/0000:05:01.0/0000:08:00.0, 0, PIX",
    "SWITCH/0000:02:00.0/0000:03:00.0, 0, INNER/0000:05:00.0/0000:06:00.0, 0, PXB",
    "SWITCH/0000:02:00.0/0000:03:00.0, 0, pci0000:00/0000:00:02.0/0000:09:00.0, 0, PHB",
    "pci0000:00/0000:00:01.0/0000:03:00.0, 0, pci0000:80/0000:80:01.0/0000:81:00.0, 0, PHB",
    "pci0000:00/0000:00:01.0/0000:03:00.0, 0, pci0000:80/0000:80:01.0/0000:81:00.0, 1, SYS",
    "SWITCH/0000:02:00.0/0000:03:00.0, 0, pci0000:80/0000:80:01.0/0000:81:00.0, 1, SYS",
  })
  void theDistanceIsThatOfTheNearestCommonSwitch(
      String one, String numa, String other, String otherNuma, PathType expected)
      throws IOException {
    PciPath first = place(one, numa);
    PciPath second = place(other, otherNuma);
    assertEquals(expected, first.to(second));
    assertEquals(expected, second.to(first));
  }
}
