package org.nccl4j.it.net;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Two GPUs with NVLink between them, each with a card below the same switch. */
public final class RailMachine {
  /** The cards' megabits a second. */
  public static final int MEGABITS = 200_000;

  private RailMachine() {}

  /** Writes the topology file with cards of {@link #MEGABITS}. */
  public static Path write(Path folder, List<String> gpus, List<String> cards) throws IOException {
    return write(folder, gpus, cards, MEGABITS);
  }

  /**
   * Writes the topology file.
   *
   * @param gpus bus ids
   * @param cards names of the network's devices; one that is named twice has two ports
   * @param megabits of a card in a second
   */
  public static Path write(Path folder, List<String> gpus, List<String> cards, int megabits)
      throws IOException {
    StringBuilder text =
        new StringBuilder(
            "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n");
    for (int gpu = 0; gpu < 2; gpu++) {
      int port = cards.indexOf(cards.get(gpu)) == gpu ? 1 : 2;
      text.append(
          """
          <pci busid="ffff:%1$d0:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
          <pci busid="%3$s" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
          <gpu dev="%2$d" sm="90" rank="%2$d" gdr="1">
          <nvlink target="%4$s" count="8" tclass="0x030200"/></gpu></pci>
          <pci busid="ffff:%1$d2:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
          <nic><net name="%5$s" dev="%2$d" speed="%7$d" port="%6$d" guid="0x%1$d" gdr="1"/></nic>
          </pci></pci>
          """
              .formatted(
                  1 + gpu, gpu, gpus.get(gpu), gpus.get(1 - gpu), cards.get(gpu), port, megabits));
    }
    return Files.writeString(
        Files.createTempFile(folder, "machine", ".xml"), text + "</cpu></system>\n");
  }
}
