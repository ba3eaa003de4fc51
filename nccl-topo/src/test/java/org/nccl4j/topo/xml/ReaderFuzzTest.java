package org.nccl4j.topo.xml;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;

/**
 * Files with random damage are read or refused with an error of ours; nothing else is thrown, and
 * nothing hangs. The seed is in every failure.
 */
class ReaderFuzzTest {
  private static final int ROUNDS = 1500;
  private static final String[] BASES = {"gh200-quad", "pcie-4-bridge", "power9-6v100", "vm-4h100"};
  private static final String[] PIECES = {
    "<",
    ">",
    "/",
    "\"",
    "=",
    "-1",
    "0x",
    "999999999999",
    "<pci>",
    "</pci>",
    "<gpu/>",
    "&lol;",
    "<!--",
    "-->",
    "rank=\"0\"",
    "busid=\"0000:01:00.0\"",
    "\u0000",
    "<nic>",
    "count=\"-3\""
  };

  @Test
  @Timeout(600)
  void damagedFilesAreReadOrRefused() {
    long seed = Long.getLong("nccl4j.seed", 1);
    int refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
      Random random = new Random(seed + round);
      String base = BASES[random.nextInt(BASES.length)];
      String text = damage(TestMachines.text("machines/" + base + ".xml"), random);
      try {
        Cluster.routes(TopologyXml.parseSystem("fuzz.xml", text), ClusterOptions.DEFAULT);
      } catch (TopologyException e) {
        refused++;
        assertTrue(!e.remedy().isBlank() && !e.where().isBlank(), e.getMessage());
      } catch (RuntimeException | StackOverflowError e) {
        fail("seed " + (seed + round) + ", run with -Dnccl4j.seed", e);
      }
    }
    assertTrue(refused > 0, "no damage was noticed");
  }

  private static String damage(String good, Random random) {
    StringBuilder text = new StringBuilder(good);
    int times = 1 + random.nextInt(4);
    for (int i = 0; i < times; i++) {
      int at = random.nextInt(text.length());
      int to = Math.min(text.length(), at + random.nextInt(40));
      switch (random.nextInt(5)) {
        case 0 -> text.delete(at, to);
        case 1 -> text.insert(at, PIECES[random.nextInt(PIECES.length)]);
        case 2 -> text.setCharAt(at, (char) (32 + random.nextInt(95)));
        case 3 -> text.insert(at, text.substring(at, to));
        default -> digit(text, at, random);
      }
    }
    return text.toString();
  }

  /** Changes a number, which keeps the file well-formed and the machine strange. */
  private static void digit(StringBuilder text, int from, Random random) {
    for (int at = from; at < text.length(); at++) {
      if (Character.isDigit(text.charAt(at))) {
        text.setCharAt(at, (char) ('0' + random.nextInt(10)));
        return;
      }
    }
  }
}
