package org.nccl4j.it.top;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.report.HostDrawing.Box;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * The places of a host's ranks in its picture: at a GPU of the machine, else in a box of their
 * process. One thread.
 */
final class HostSites {
  /** Processes with a box of their own; the others share one. */
  static final int MOST_PROCESSES = 16;

  private static final int NAMED_RANKS = 3;

  /**
   * The place of a rank.
   *
   * @param box its id
   * @param gpu of the machine; null if it uses none, or it is not in the machine
   * @param usesMemory true if it uses the host's memory
   */
  record Site(String box, Node gpu, boolean usesMemory) {}

  private final Optional<Machine> machine;
  private final Map<String, Site> sites = new HashMap<>();
  private final Map<String, String> processes = new LinkedHashMap<>();

  /** The ranks in each box, by communicator: the largest one first. */
  private final Map<String, Map<Communicator, SortedSet<Integer>>> ranks = new HashMap<>();

  private record Communicator(int nRanks, long id) {
    static final Comparator<Communicator> ORDER =
        Comparator.comparingInt(Communicator::nRanks).reversed().thenComparing(Communicator::id);
  }

  HostSites(Optional<Machine> machine) {
    this.machine = machine;
  }

  /** Places a rank. */
  Site add(CommunicatorRates communicator, RankRates rank) {
    Site site = place(rank);
    sites.put(key(communicator, rank.rank()), site);
    ranks
        .computeIfAbsent(site.box, box -> new TreeMap<>(Communicator.ORDER))
        .computeIfAbsent(
            new Communicator(communicator.nRanks(), communicator.id()), each -> new TreeSet<>())
        .add(rank.rank());
    return site;
  }

  private Site place(RankRates rank) {
    boolean usesMemory = rank.device().equals(RankReport.HOST);
    if (hasGpu(rank)) {
      Optional<Node> device = machine.flatMap(found -> found.deviceAt(rank.device()));
      if (device.isPresent()) {
        return new Site(device.get().toString(), gpuOf(device.get()), false);
      }
    }
    return new Site(process(rank.process().pid()), null, usesMemory);
  }

  /** True if a rank's device is a GPU. */
  static boolean hasGpu(RankRates rank) {
    return !rank.device().isEmpty() && !rank.device().equals(RankReport.HOST);
  }

  private static Node gpuOf(Node device) {
    return device.links().stream()
        .map(Link::to)
        .filter(node -> node.type() == NodeType.GPU)
        .findFirst()
        .orElse(device);
  }

  private String process(long pid) {
    String own = "process/" + pid;
    if (processes.containsKey(own) || processes.size() < MOST_PROCESSES) {
      processes.put(own, "process " + pid);
      return own;
    }
    processes.put("process/others", "other processes");
    return "process/others";
  }

  private static String key(CommunicatorRates communicator, int rank) {
    return communicator.id() + " " + rank;
  }

  /** The place of a rank of a communicator; empty if it is not on this host. */
  Optional<Site> find(CommunicatorRates communicator, int rank) {
    return Optional.ofNullable(sites.get(key(communicator, rank)));
  }

  /** The processes' boxes. */
  List<Box> boxes() {
    return processes.entrySet().stream()
        .map(each -> new Box(each.getKey(), List.of(ranks(each.getKey()), each.getValue())))
        .toList();
  }

  /** Ids of the processes that use the host's memory. */
  List<String> usesMemory() {
    return sites.values().stream()
        .filter(Site::usesMemory)
        .map(Site::box)
        .distinct()
        .sorted()
        .toList();
  }

  /** The ranks in all boxes. */
  Map<String, String> texts() {
    Map<String, String> texts = new HashMap<>();
    ranks.keySet().forEach(box -> texts.put(box, ranks(box)));
    return texts;
  }

  /** A box's ranks in the largest of its communicators, such as "ranks 0 to 3". */
  private String ranks(String box) {
    List<Integer> numbers = new ArrayList<>(ranks.get(box).values().iterator().next());
    int first = numbers.get(0);
    int last = numbers.get(numbers.size() - 1);
    if (numbers.size() == 1) {
      return "rank " + first;
    }
    if (last - first == numbers.size() - 1) {
      return "ranks %d to %d".formatted(first, last);
    }
    return "ranks "
        + numbers.stream().limit(NAMED_RANKS).map(String::valueOf).collect(Collectors.joining(", "))
        + (numbers.size() > NAMED_RANKS ? ", ..." : "");
  }
}
