package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.NvlsAccess;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.plan.cost.TopologyCostModelTest;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.api.window.WindowSetup;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * The planner's choices for many kinds of communicators, settings and sizes, as choices.txt has
 * recorded them. A line has the communicator, the settings, the operation, and each size in
 * elements from which on another choice is made. The property {@code nccl4j.choices=write} records
 * the choices of the code as it is; the difference shows what a change of costs means.
 */
public class ChoicesTest {
  private static final Settings SETTINGS = Settings.ofProcess(Map.of());
  private static final int CORES = 8;
  private static final long MOST = 1L << 30;

  private static final List<Operation> OPERATIONS = operations();

  private static final List<String[]> FILTERS =
      List.of(
          new String[] {"^DirectLL,NVLS", ""},
          new String[] {"Ring;allreduce:tree,nvls,nvlstree", ""},
          new String[] {"DirectOneShot,CopyEngineStream;sendrecv:copyengine", ""},
          new String[] {"", "LL"},
          new String[] {"directll,nvls,pat", "^LL128"});

  /** The communicators whose choices are recorded with each of the filters too. */
  private static final List<String> FILTERED =
      List.of("host 4", "H200 8", "H200 8 NVLS", "Other 4 tuned for Other emulated", "host 4 on 4");

  private static List<Operation> operations() {
    List<Operation> operations = new ArrayList<>(Operation.ofAllRanks());
    operations.add(Operation.SEND);
    return operations;
  }

  /**
   * A communicator: the facts of its ranks, and a rank's place in NVLS or null, and limits of
   * blocks.
   */
  private record Ranks(CommunicatorProfile facts, Nvls nvls, CtaLimits limits) {
    Ranks(CommunicatorProfile facts, Nvls nvls) {
      this(facts, nvls, CtaLimits.NONE);
    }
  }

  private static CommunicatorProfile facts(
      int nRanks, Device.Kind kind, String model, boolean reach, boolean nvlink, int hosts) {
    return facts(nRanks, kind, model, reach, nvlink, hosts, Optional.empty(), Optional.empty());
  }

  private static CommunicatorProfile facts(
      int nRanks,
      Device.Kind kind,
      String model,
      boolean reach,
      boolean nvlink,
      int hosts,
      Optional<CommTopology> topology,
      Optional<TunedTable> tuned) {
    RankPlacement spread =
        hosts == 1
            ? RankPlacement.together(nRanks)
            : new RankPlacement(hosts, nRanks / hosts, true, 4, true);
    return new CommunicatorProfile(
        nRanks, kind, model, reach, nvlink, spread, topology, tuned, CORES, BlockRoom.UNLIMITED);
  }

  private static Nvls nvls(int nRanks, int heads, boolean emulated) {
    return new Nvls(
        new NvlsLayout(heads, 16, 128 << 10),
        IntStream.range(0, nRanks).boxed().toList(),
        IntStream.range(0, heads).boxed().toList(),
        0,
        null,
        new MulticastMemory(emulated, List.of()),
        List.of(),
        1,
        /* combinesBytes= */ false);
  }

  private static Map<String, Ranks> communicators() {
    Map<String, Ranks> all = new LinkedHashMap<>();
    for (int n : new int[] {2, 3, 4, 8, 32}) {
      all.put("host " + n, new Ranks(facts(n, Device.Kind.HOST, "host", true, false, 1), null));
      all.put(
          "H200 " + n, new Ranks(facts(n, Device.Kind.CUDA, "NVIDIA H200", true, true, 1), null));
      all.put("GPU " + n, new Ranks(facts(n, Device.Kind.CUDA, "Other", true, true, 1), null));
    }
    addNvls(all);
    all.put("GPU 4 PCIe", new Ranks(facts(4, Device.Kind.CUDA, "Other", true, false, 1), null));
    all.put("GPU 4 apart", new Ranks(facts(4, Device.Kind.CUDA, "Other", false, false, 1), null));
    for (int n : new int[] {2, 4}) {
      String name = "host %d on 2".formatted(n);
      all.put(name, new Ranks(facts(n, Device.Kind.HOST, "host", false, false, 2), null));
    }
    all.put("host 8 on 2", new Ranks(facts(8, Device.Kind.HOST, "host", false, false, 2), null));
    all.put("host 4 on 4", new Ranks(facts(4, Device.Kind.HOST, "host", false, false, 4), null));
    all.put("GPU 16 on 2", new Ranks(facts(16, Device.Kind.CUDA, "Other", false, false, 2), null));
    for (int n : new int[] {4, 48}) {
      String name = "GPU %d on %d".formatted(n, n);
      all.put(name, new Ranks(facts(n, Device.Kind.CUDA, "Other", false, false, n), null));
    }
    all.put("GPU 8 searched", searched(1, 8, 18, null));
    all.put("GPU 16 on 16 searched", searched(16, 1, 0, null));
    all.put("GPU 8 searched PCIe", searched(1, 8, 0, null));
    all.put("A10 4 PCIe", pcie(4, "NVIDIA A10", 86, "16.0 GT/s"));
    all.put("L40S 8 PCIe", pcie(8, "NVIDIA L40S", 89, "16.0 GT/s"));
    all.put("H100 4 PCIe", pcie(4, "NVIDIA H100 PCIe", 90, "32.0 GT/s"));
    all.put("GPU 16 on 2 searched", searched(2, 8, 18, null));
    all.put("GPU 16 on 2 searched, 25 Gbit/s", slow(2, 8));
    all.put("GPU 32 on 4 searched, 25 Gbit/s", slow(4, 8));
    all.put("GPU 24 on 3 searched, 32 channels", ofAllCards(3, 8, 32, 21));
    all.put("GPU 512 on 64 searched", searched(64, 8, 18, null));
    all.put("GPU 16 on 2 searched NVLS", searched(2, 8, 18, nvls(8, 8, false)));
    all.put("GPU 16 on 2 searched emulated", searched(2, 8, 18, nvls(8, 8, true)));
    addTuned(all);
    addLimited(all);
    return all;
  }

  /** GPUs of a model that reach each other over PCIe, half of them on each NUMA node. */
  private static Ranks pcie(int gpus, String model, int sm, String speed) {
    Optional<CommTopology> topology = Optional.of(TopologyCostModelTest.pcie(gpus, sm, speed));
    return new Ranks(
        facts(gpus, Device.Kind.CUDA, model, true, false, 1, topology, Optional.empty()), null);
  }

  /** With the channels that use all cards, of which pairs that are no neighbours have fewer. */
  private static Ranks ofAllCards(int hosts, int gpus, int channels, int pairChannels) {
    CommTopology topology = TopologyCostModelTest.topology(hosts, gpus, 90, 18);
    RankPlacement spread =
        new RankPlacement(hosts, gpus, true, channels, true).withPairChannels(pairChannels);
    return new Ranks(
        new CommunicatorProfile(
            hosts * gpus,
            Device.Kind.CUDA,
            "Other",
            false,
            false,
            spread,
            Optional.of(topology),
            Optional.empty(),
            CORES,
            BlockRoom.UNLIMITED),
        null);
  }

  /** By few blocks: as a user allows, and as many as small GPUs have room for. */
  private static void addLimited(Map<String, Ranks> all) {
    CtaLimits sparing = new CtaLimits(1, 64, 64, /* sparing= */ true);
    for (int n : new int[] {2, 8}) {
      CommunicatorProfile gpus = facts(n, Device.Kind.CUDA, "NVIDIA H200", true, true, 1);
      for (int most : new int[] {24, 8}) {
        String name = "H200 %d by %d blocks".formatted(n, most);
        all.put(name, new Ranks(gpus, null, new CtaLimits(1, most, 64)));
      }
      all.put("H200 %d sparing".formatted(n), new Ranks(gpus, null, sparing));
    }
    for (int most : new int[] {20, 7}) {
      CtaLimits small = new CtaLimits(1, most, most / 2);
      for (String name : List.of("GPU 8 searched PCIe", "GPU 4 apart")) {
        all.put(
            "%s by %d blocks".formatted(name, most), new Ranks(all.get(name).facts, null, small));
      }
    }
  }

  /** Fast links within the hosts, and slow cards between them. */
  private static Ranks slow(int hosts, int gpus) {
    TopoSettings settings = TopoSettings.defaults();
    return searched(
        TopologyCostModelTest.topology(hosts, gpus, 90, 18, 25_000, settings),
        hosts,
        gpus,
        /* nvlink= */ true,
        /* nvls= */ null);
  }

  private static Ranks searched(int hosts, int gpus, int nvLinks, Nvls nvls) {
    CommTopology topology = TopologyCostModelTest.topology(hosts, gpus, 90, nvLinks);
    return searched(topology, hosts, gpus, nvLinks > 0, nvls);
  }

  private static Ranks searched(
      CommTopology topology, int hosts, int gpus, boolean nvlink, Nvls nvls) {
    boolean near = hosts == 1;
    return new Ranks(
        facts(
            hosts * gpus,
            Device.Kind.CUDA,
            "Other",
            near,
            near && nvlink,
            hosts,
            Optional.of(topology),
            Optional.empty()),
        nvls == null ? null : nvls.among(hosts, List.of()));
  }

  private static void addNvls(Map<String, Ranks> all) {
    for (boolean emulated : new boolean[] {false, true}) {
      String how = emulated ? " emulated" : " NVLS";
      CommunicatorProfile host = facts(4, Device.Kind.HOST, "host", true, false, 1);
      CommunicatorProfile hosts = facts(8, Device.Kind.HOST, "host", false, false, 2);
      CommunicatorProfile gpus = facts(8, Device.Kind.CUDA, "NVIDIA H200", true, true, 1);
      CommunicatorProfile other = facts(8, Device.Kind.CUDA, "Other", true, true, 1);
      CommunicatorProfile far = facts(16, Device.Kind.CUDA, "Other", false, false, 2);
      all.put("host 4" + how, new Ranks(host, nvls(4, 4, emulated)));
      all.put("host 4, 2 heads" + how, new Ranks(host, nvls(4, 2, emulated)));
      all.put("host 8 on 2" + how, new Ranks(hosts, nvls(4, 4, emulated).among(2, List.of())));
      all.put("H200 8" + how, new Ranks(gpus, nvls(8, 8, emulated)));
      all.put("GPU 8" + how, new Ranks(other, nvls(8, 8, emulated)));
      all.put("GPU 16 on 2" + how, new Ranks(far, nvls(8, 8, emulated).among(2, List.of())));
    }
  }

  private static void addTuned(Map<String, Ranks> all) {
    TunedTable host =
        new TunedTable(
            "times",
            "host",
            List.of(
                "4 AllReduce Tree LL 128:0.01 65536:0.02 1048576:9999",
                "4 AllReduce Ring Simple 128:0.5 65536:0.6 1048576:1",
                "4 AllReduce DirectLL LL 128:0.001",
                "4 AllGather DirectOneShot Simple 128:0.4 1048576:900",
                "4 AllToAll Pairwise Simple 128:1 1048576:2"));
    TunedTable gpu =
        new TunedTable(
            "times",
            "Other",
            List.of(
                "4 AllGather DirectOneShot Simple 2000:4 4000000:6",
                "4 AllGather DirectLL LL 2000:3 40000:6",
                "4 AllReduce CopyEngineBatch Simple 2000:4 4000000:6",
                "4 AllToAll CopyEngineBatch Simple 2000:4 4000000:6",
                "4 AllToAll Pairwise Simple 2000:3 4000000:90",
                "4 AllGather Ring Simple 2000:9 4000000:14"));
    for (TunedTable table : List.of(host, gpu)) {
      for (Device.Kind kind : Device.Kind.values()) {
        String model = kind == Device.Kind.HOST ? "host" : "Other";
        for (Nvls nvls : new Nvls[] {null, nvls(4, 4, true), nvls(4, 4, false)}) {
          all.put(
              "%s 4 tuned for %s%s"
                  .formatted(
                      model,
                      table.device(),
                      nvls == null ? "" : nvls.multicast().emulated() ? " emulated" : " NVLS"),
              new Ranks(
                  facts(
                      4,
                      kind,
                      model,
                      true,
                      kind == Device.Kind.CUDA,
                      1,
                      Optional.empty(),
                      Optional.of(table)),
                  nvls));
        }
      }
    }
  }

  private static KernelCommunicator kernels() {
    return (KernelCommunicator)
        Proxy.newProxyInstance(
            ChoicesTest.class.getClassLoader(),
            new Class<?>[] {KernelCommunicator.class},
            (proxy, method, arguments) -> method.getName().equals("hasCopyEngines"));
  }

  /** The windows of a rank of some, with no space for windows yet. */
  public static WindowRegistry windows(CommunicatorProfile facts) {
    List<PeerInfo> peers = new ArrayList<>();
    for (int rank = 0; rank < facts.nRanks(); rank++) {
      String host = "host" + rank / facts.spread().mostRanks();
      peers.add(
          new PeerInfo(rank, host, "ns", "process", 0, facts.kind(), facts.kind() + " " + rank));
    }
    return new WindowRegistry(
        new WindowSetup("recorded", 0, peers, HostDevice.instance(), null, 0, null, null, null),
        space -> {});
  }

  private static List<String> lines() {
    List<String> lines = new ArrayList<>();
    communicators()
        .forEach(
            (name, ranks) -> {
              try (WindowRegistry windows = windows(ranks.facts)) {
                lines.addAll(lines(name, ranks, windows, "", ""));
                if (FILTERED.contains(name)) {
                  FILTERS.forEach(
                      filter -> lines.addAll(lines(name, ranks, windows, filter[0], filter[1])));
                }
              }
            });
    return lines;
  }

  private static List<String> lines(
      String name, Ranks ranks, WindowRegistry windows, String algo, String proto) {
    Planner.Rules rules =
        new Planner.Rules(
            AlgorithmFilter.parse(algo, proto),
            TunerHook.NONE,
            ranks.limits,
            new InfoLog(SETTINGS, "recorded"));
    Planner planner =
        new Planner(
            kernels(),
            new Planner.Place(
                0,
                ranks.facts,
                new ConnectionLayout(1 << 10, 1 << 10, 1 << 12),
                NvlsAccess.of(ranks.nvls),
                windows),
            rules);
    List<String> lines = new ArrayList<>();
    int blocks = planner.fullBlocks(Algorithm.DIRECT_TWO_SHOT);
    lines.add(
        "%s, '%s', '%s': wants space: %s%s"
            .formatted(
                name,
                algo,
                proto,
                planner.wantsSpace(),
                blocks == 0 ? "" : ", at most %d blocks between windows".formatted(blocks)));
    for (Operation operation : OPERATIONS) {
      StringBuilder line = new StringBuilder();
      String last = "";
      for (long count = 1; count <= MOST; count *= 2) {
        AlgorithmChoice plain = planner.choice(operation, count, DataType.FLOAT32);
        String is =
            plain
                + planner
                    .choiceInWindows(operation, count, DataType.FLOAT32)
                    .map(choice -> " or " + choice)
                    .orElse("");
        if (!is.equals(last)) {
          line.append(line.isEmpty() ? "" : ", ").append(count).append(' ').append(is);
          last = is;
        }
      }
      lines.add("%s, '%s', '%s': %s: %s".formatted(name, algo, proto, operation.label(), line));
    }
    return lines;
  }

  @Test
  void choicesAreThoseThatWereRecorded() throws IOException {
    if (System.getProperty("nccl4j.choices", "").equals("write")) {
      Files.write(Path.of("src/test/resources/org/nccl4j/api/plan/algorithm/choices.txt"), lines());
      return;
    }
    try (InputStream in = ChoicesTest.class.getResourceAsStream("choices.txt")) {
      List<String> recorded =
          new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
      List<String> found = lines();
      for (int line = 0; line < Math.min(recorded.size(), found.size()); line++) {
        assertEquals(recorded.get(line), found.get(line));
      }
      assertEquals(recorded.size(), found.size());
    }
  }
}
