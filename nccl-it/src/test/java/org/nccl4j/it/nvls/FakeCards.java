package org.nccl4j.it.nvls;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import jnr.ffi.LibraryLoader;
import org.nccl4j.it.api.FakeVerbsLibrary;

/** The entries of fakeverbs.c that are for tests. Public for jnr-ffi's stubs. */
public interface FakeCards {
  /** EOPNOTSUPP. */
  int NOT_SUPPORTED = 95;

  /** The library that the network loads too. */
  static FakeCards load() {
    return LibraryLoader.create(FakeCards.class)
        .failImmediately()
        .load(System.getenv("NCCL_IBVERBS_LIB"));
  }

  /** A machine with the fake's GPUs and such a card behind one PCIe switch. */
  static Map<String, String> settings(Path folder) throws IOException {
    String gpu =
        """
        <pci busid="0000:%02x:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="%d" sm="90" rank="%d" gdr="1"/></pci>
        """;
    String machine =
        """
        <system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
        <pci busid="0000:09:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
        %s%s
        <pci busid="0000:03:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="roce0" dev="0" speed="200000" port="1" guid="0x1" gdr="1"/></nic></pci>
        </pci></cpu></system>
        """
            .formatted(gpu.formatted(0xa, 0, 0), gpu.formatted(0xb, 1, 1));
    Path file = Files.writeString(Files.createTempFile(folder, "machine", ".xml"), machine);
    return Map.of(
        "NCCL_NET",
        "IB",
        "NCCL_IBVERBS_LIB",
        FakeVerbsLibrary.path(),
        "NCCL_TOPO_FILE",
        file.toString());
  }

  /** All calls, a line each. */
  String fake_calls();

  /** Everything that was made and not destroyed. */
  int fake_live();

  /** Gives a device so many ports. */
  void fake_set_ports(int device, int ports);

  /** A call fails after so many successes. */
  void fake_fail(String call, int error, int after);

  /** A send breaks after so many others; arrives: 0 nothing, 1 a part of the data, 2 all. */
  void fake_break(int after, int arrives);

  /** The number of calls that begin with a text. */
  default long calls(String words) {
    return fake_calls().lines().filter(line -> line.startsWith(words)).count();
  }
}
