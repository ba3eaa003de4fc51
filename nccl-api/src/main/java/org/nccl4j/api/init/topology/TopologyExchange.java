package org.nccl4j.api.init.topology;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.System.Logger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.IntStream;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.peers.LocalIdentity;
import org.nccl4j.api.settings.SettingFile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.detect.GpuFacts;
import org.nccl4j.topo.detect.SysFiles;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/**
 * The machines of a communicator, the same on all its ranks: the first rank of each container
 * detects its host, including the GPUs of the other ranks there, and sends the result to all ranks,
 * which merge the results for each host. The hosts of a clique are one machine. The ranks of one
 * process merge once. Immutable; any thread.
 */
public final class TopologyExchange {
  private static final TopologyExchange NONE = new TopologyExchange(List.of(), false);

  private static final Logger LOG = DebugLog.of("GRAPH");
  private static final int MOST_XML_BYTES = 16 << 20;
  private static final SysFiles HERE = new SysFiles(Path.of("/"));

  private static final RecentResults<List<ByteBuffer>, List<MachineFacts>> READ =
      new RecentResults<>();
  private static final RecentResults<Told, TopologyExchange> MERGED = new RecentResults<>();

  /**
   * Everything from which ranks merge their machines.
   *
   * @param places hosts and nodes of the ranks
   * @param facts of each rank
   * @param views of hosts, empty for ranks that send none
   */
  private record Told(List<String> places, List<ByteBuffer> facts, List<ByteBuffer> views) {}

  private final List<CommTopology.Host> hosts;
  private final boolean graphs;

  /** Null until it is asked for. */
  private String text;

  /**
   * Machines that are known.
   *
   * @param hosts every machine, by its first rank; empty if no rank needs them
   * @param graphs true if every rank has a GPU in them, so that graphs can be searched
   */
  TopologyExchange(List<CommTopology.Host> hosts, boolean graphs) {
    this.hosts = List.copyOf(hosts);
    this.graphs = graphs;
  }

  /** Every machine, by its first rank; empty if no rank needs them. To be read only. */
  public List<CommTopology.Host> hosts() {
    return hosts;
  }

  /** True if every rank has a GPU in the machines, so that graphs can be searched. */
  boolean graphs() {
    return graphs;
  }

  /** A text that is the same for equal machines with the same ranks. */
  synchronized String text() {
    if (text == null) {
      StringBuilder all = new StringBuilder();
      for (CommTopology.Host host : hosts) {
        all.append(TopologyXml.write(host.system())).append(Arrays.toString(host.ranks()));
      }
      text = all.toString();
    }
    return text;
  }

  /**
   * Asks all ranks; collective.
   *
   * @param nics devices of this rank's networks
   */
  public static TopologyExchange of(
      InitRequest request, List<PeerInfo> peers, HostNics nics, Bootstrap bootstrap) {
    Settings settings = request.settings();
    checkFiles(settings);
    MachineFacts mine = MachineFacts.of(request.device(), settings, HERE);
    List<ByteBuffer> sent = wrap(bootstrap.allGather(mine.toBytes()));
    List<MachineFacts> facts = READ.of(sent, () -> read(sent));
    Map<String, List<Integer>> ranksOf = new LinkedHashMap<>();
    peers.forEach(
        peer -> ranksOf.computeIfAbsent(peer.node(), host -> new ArrayList<>()).add(peer.rank()));
    boolean gpus = gpusEverywhere(peers, facts);
    if (gpus && Nvml.probe().absence().isPresent()) {
      LOG.log(
          request.logLevel("INIT", "GRAPH"),
          "NVLinks are derived from the atomics between GPUs, C2C links are not known: {0}",
          Nvml.probe().absence().get());
    }
    boolean graphs = gpus || filesEverywhere(ranksOf, facts);
    if (!graphs && facts.stream().noneMatch(MachineFacts::dumps)) {
      return NONE;
    }
    Map<Integer, SortedMap<Integer, MachineFacts>> views = views(peers, ranksOf, facts);
    byte[] told = new byte[0];
    if (views.containsKey(bootstrap.rank())) {
      HostTopology host = new HostTopology(settings, HERE, views.get(bootstrap.rank()), nics);
      told =
          describe(
              host, peers.get(bootstrap.rank()).hostId(), settings.isSet(Settings.NCCL_TOPO_FILE));
    }
    List<byte[]> all = bootstrap.allGather(told);
    if (views.keySet().stream().anyMatch(rank -> all.get(rank).length == 0)) {
      return NONE;
    }
    List<String> places = peers.stream().map(peer -> peer.hostId() + "\t" + peer.node()).toList();
    return MERGED.of(
        new Told(places, sent, wrap(all)),
        () ->
            new TopologyExchange(
                merge(peers, ranksOf.values(), facts, views.keySet(), all), graphs));
  }

  private static List<ByteBuffer> wrap(List<byte[]> messages) {
    return messages.stream().map(ByteBuffer::wrap).toList();
  }

  private static List<MachineFacts> read(List<ByteBuffer> messages) {
    List<MachineFacts> facts = new ArrayList<>();
    messages.forEach(message -> facts.add(MachineFacts.fromBytes(facts.size(), message.array())));
    return List.copyOf(facts);
  }

  /** The machines of what ranks have seen; equal views are read once. */
  private static List<CommTopology.Host> merge(
      List<PeerInfo> peers,
      Collection<List<Integer>> machines,
      List<MachineFacts> facts,
      Set<Integer> seers,
      List<byte[]> all) {
    Map<ByteBuffer, XmlElement> read = new HashMap<>();
    List<CommTopology.Host> hosts = new ArrayList<>();
    for (List<Integer> ranks : machines) {
      Map<String, List<XmlElement>> seen = new LinkedHashMap<>();
      for (int rank : ranks) {
        if (seers.contains(rank)) {
          byte[] view = all.get(rank);
          seen.computeIfAbsent(peers.get(rank).hostId(), host -> new ArrayList<>())
              .add(
                  read.computeIfAbsent(
                      ByteBuffer.wrap(view),
                      missing -> TopologyXml.parseSystem("rank " + rank, inflate(rank, view))));
        }
      }
      boolean files = facts.get(ranks.get(0)).netsFromFile();
      XmlElement system =
          CliqueTopology.fuse(
              seen.values().stream().map(host -> HostTopology.join(host, files)).toList());
      hosts.add(new CommTopology.Host(system, ranks.stream().mapToInt(rank -> rank).toArray()));
    }
    return hosts;
  }

  /** Files that this rank names are there, also where another rank of its host reads its own. */
  private static void checkFiles(Settings settings) {
    for (Setting<String> file : List.of(Settings.NCCL_TOPO_FILE, Settings.NCCL_GRAPH_FILE)) {
      if (settings.isSet(file)) {
        SettingFile.readable(file, settings.get(file));
      }
    }
  }

  /** This machine with a rank on each of some GPUs, as if its ranks had exchanged it. */
  static TopologyExchange ahead(List<CudaDevice> gpus, Settings settings) {
    SortedMap<Integer, MachineFacts> local = new TreeMap<>();
    gpus.forEach(gpu -> local.put(local.size(), MachineFacts.of(gpu, settings, HERE)));
    String hostId = LocalIdentity.hostId(settings.get(Settings.NCCL_HOSTID));
    XmlElement seen =
        new HostTopology(settings, HERE, local, HostNics.UNKNOWN).make(number(hostId));
    String told = TopologyXml.write(seen);
    XmlElement system =
        HostTopology.join(List.of(TopologyXml.parseSystem("this machine", told)), false);
    int[] ranks = IntStream.range(0, gpus.size()).toArray();
    return new TopologyExchange(List.of(new CommTopology.Host(system, ranks)), true);
  }

  private static long number(String hostId) {
    return hostId.hashCode() & 0xffffffffL;
  }

  /**
   * Returns the ranks that send their host's facts, and the ranks that each stands for. The first
   * rank of each container does so for the ranks in it, with their numbers on the machine.
   */
  private static Map<Integer, SortedMap<Integer, MachineFacts>> views(
      List<PeerInfo> peers, Map<String, List<Integer>> ranksOf, List<MachineFacts> facts) {
    Map<Integer, SortedMap<Integer, MachineFacts>> views = new TreeMap<>();
    for (List<Integer> ranks : ranksOf.values()) {
      Map<String, Integer> firsts = new HashMap<>();
      for (int number = 0; number < ranks.size(); number++) {
        int rank = ranks.get(number);
        String container = peers.get(rank).hostId() + " " + facts.get(rank).container();
        firsts.putIfAbsent(container, rank);
        views
            .computeIfAbsent(firsts.get(container), first -> new TreeMap<>())
            .put(number, facts.get(rank));
      }
    }
    return views;
  }

  /** Nothing where detection fails: a user who named no file can do without. */
  private static byte[] describe(HostTopology host, String hostId, boolean named) {
    try {
      return deflate(TopologyXml.write(host.make(number(hostId))));
    } catch (TopologyException e) {
      if (named) {
        throw new InvalidUsageException(ErrorId.TOPOLOGY, e.problem(), e.remedy(), e);
      }
      LOG.log(
          Logger.Level.WARNING,
          "The topology of this machine is not known; the rings are in the order of ranks: {0}",
          e.getMessage());
      return new byte[0];
    }
  }

  /** Two ranks of one GPU have no place in a topology. */
  private static boolean gpusEverywhere(List<PeerInfo> peers, List<MachineFacts> facts) {
    Set<String> used = new HashSet<>();
    for (PeerInfo peer : peers) {
      Optional<GpuFacts> gpu = facts.get(peer.rank()).gpu();
      if (gpu.isEmpty() || !used.add(peer.hostId() + " " + gpu.get().busId())) {
        return false;
      }
    }
    return true;
  }

  private static boolean filesEverywhere(
      Map<String, List<Integer>> ranksOf, List<MachineFacts> facts) {
    boolean noGpus = facts.stream().allMatch(fact -> fact.gpu().isEmpty());
    return noGpus
        && ranksOf.values().stream().allMatch(ranks -> facts.get(ranks.get(0)).fromFile());
  }

  /**
   * The machines of some of the ranks, with their GPUs alone.
   *
   * @param some the ranks; each gets the number of its place in the list
   */
  public TopologyExchange of(List<Integer> some) {
    List<CommTopology.Host> fewer = new ArrayList<>();
    for (CommTopology.Host host : hosts) {
      int[] theirs =
          IntStream.range(0, some.size())
              .filter(rank -> Arrays.binarySearch(host.ranks(), some.get(rank)) >= 0)
              .toArray();
      if (theirs.length > 0) {
        XmlElement system = host.system().copy();
        Map<Integer, Integer> numbers = new HashMap<>();
        for (int number = 0; number < theirs.length; number++) {
          numbers.put(Arrays.binarySearch(host.ranks(), some.get(theirs[number])), number);
        }
        keep(system, numbers);
        CliqueTopology.removeUnused(system);
        fewer.add(new CommTopology.Host(system, theirs));
      }
    }
    return new TopologyExchange(List.copyOf(fewer), graphs);
  }

  /** Gives GPUs their new numbers, and removes those that have none. */
  private static void keep(XmlElement element, Map<Integer, Integer> numbers) {
    for (XmlElement child : List.copyOf(element.children())) {
      if (child.is("gpu") && child.text("rank").isPresent()) {
        Integer number = numbers.get(child.requireInt("rank"));
        if (number == null) {
          element.parent().remove(element);
          return;
        }
        child.set("rank", number);
      } else {
        keep(child, numbers);
      }
    }
  }

  /** The host of a rank. */
  CommTopology.Host hostOf(int rank) {
    for (CommTopology.Host host : hosts) {
      for (int there : host.ranks()) {
        if (there == rank) {
          return host;
        }
      }
    }
    throw new IllegalArgumentException("rank " + rank);
  }

  private static byte[] deflate(String text) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DeflaterOutputStream out = new DeflaterOutputStream(bytes)) {
      out.write(text.getBytes(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  private static String inflate(int rank, byte[] bytes) {
    try (InflaterInputStream in = new InflaterInputStream(new ByteArrayInputStream(bytes))) {
      return new String(in.readNBytes(MOST_XML_BYTES), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "rank %d sent facts of its machine that this rank cannot read (%s)".formatted(rank, e),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }
}
