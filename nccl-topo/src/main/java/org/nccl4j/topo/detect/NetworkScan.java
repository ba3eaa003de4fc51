package org.nccl4j.topo.detect;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.nccl4j.topo.CNumber;
import org.nccl4j.topo.PciPath;

/** Finds the kernel's networks: InfiniBand and RoCE ports, else interfaces. */
public final class NetworkScan {
  private static final Pattern RATE = Pattern.compile("([0-9.]+) Gb/sec.*");
  private static final int IB_CONNECTIONS = 131072;
  private static final int SOCKET_CONNECTIONS = 65536;
  private static final int DEFAULT_MBPS = 10000;

  private final SysFiles files;

  private NetworkScan(SysFiles files) {
    this.files = files;
  }

  /** The active ports of InfiniBand devices, or if there are none the interfaces that are up. */
  public static List<NetFacts> of(SysFiles files) {
    return of(files, net -> true);
  }

  /**
   * Those that may be used; all if none of them may, such as beside a plug-in with other names.
   *
   * @param usable true for a port or an interface that may be used
   */
  public static List<NetFacts> of(SysFiles files, Predicate<NetFacts> usable) {
    NetworkScan scan = new NetworkScan(files);
    List<NetFacts> used = scan.find(usable);
    return used.isEmpty() ? scan.find(net -> true) : used;
  }

  private List<NetFacts> find(Predicate<NetFacts> usable) {
    List<NetFacts> ports = infiniband().stream().filter(usable).toList();
    return ports.isEmpty() ? interfaces(usable) : ports;
  }

  private List<NetFacts> infiniband() {
    boolean peerMemory =
        files.exists("module/nvidia_peermem") || files.exists("module/nv_peer_mem");
    List<NetFacts> nets = new ArrayList<>();
    for (String device : files.list("class/infiniband")) {
      String folder = "class/infiniband/" + device + "/";
      for (String port : files.list(folder + "ports")) {
        String at = folder + "ports/" + port + "/";
        if (files.sys(at + "state").contains("ACTIVE")) {
          nets.add(
              new NetFacts(
                  device,
                  card(folder + "device"),
                  rate(files.sys(at + "rate")),
                  port.matches("[0-9]{1,4}") ? Integer.parseInt(port) : 1,
                  guid(files.sys(folder + "sys_image_guid")),
                  0,
                  IB_CONNECTIONS,
                  peerMemory));
        }
      }
    }
    return nets;
  }

  /** The address of a card; its functions are ports of one card. */
  private String card(String link) {
    Optional<Path> folder = files.real(link);
    String busId = folder.map(path -> String.valueOf(path.getFileName())).orElse("");
    if (!PciPath.isAddress(busId)) {
      return "";
    }
    String first = busId.substring(0, busId.length() - 1) + "0";
    return files.pci(first).isPresent() ? first : busId;
  }

  private static int rate(String text) {
    Matcher match = RATE.matcher(text);
    return match.matches() ? (int) (Double.parseDouble(match.group(1)) * 1000) : DEFAULT_MBPS;
  }

  private static long guid(String text) {
    return text.isEmpty() ? 0 : CNumber.hex(text.replace(":", ""));
  }

  /** Interfaces that are up; virtual ones where there are no others, as sockets use them. */
  private List<NetFacts> interfaces(Predicate<NetFacts> usable) {
    List<String> up =
        files.list("class/net").stream()
            .filter(name -> !name.equals("lo"))
            .filter(name -> files.sys("class/net/" + name + "/operstate").equals("up"))
            .filter(name -> usable.test(facts(name, 0)))
            .toList();
    List<String> outward = up.stream().filter(name -> !VirtualInterfaces.include(name)).toList();
    List<NetFacts> nets = new ArrayList<>();
    for (String name : outward.isEmpty() ? up : outward) {
      nets.add(facts(name, nets.size()));
    }
    return nets;
  }

  private NetFacts facts(String name, int guid) {
    String folder = "class/net/" + name + "/";
    String speed = files.sys(folder + "speed");
    int mbps = speed.matches("[1-9][0-9]{0,8}") ? Integer.parseInt(speed) : DEFAULT_MBPS;
    return new NetFacts(name, card(folder + "device"), mbps, 0, guid, 0, SOCKET_CONNECTIONS, false);
  }
}
