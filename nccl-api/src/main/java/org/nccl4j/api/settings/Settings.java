package org.nccl4j.api.settings;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.topo.NameLists;
import org.nccl4j.topo.TopoSettings;

/**
 * All settings, and their values for one communicator. Names that NCCL has mean what they mean
 * there; NCCL4J_ names are this library's own.
 */
public final class Settings implements SettingValues {
  /** See {@link Setting#sentence()}, here and below. */
  public static final Setting<NameLists> NCCL_ALGO = Setting.of(TopoSettings.NCCL_ALGO);

  public static final Setting<NameLists> NCCL_PROTO = Setting.of(TopoSettings.NCCL_PROTO);

  public static final Setting<Integer> NCCL_MIN_CTAS = Setting.of(TopoSettings.NCCL_MIN_CTAS);

  public static final Setting<Integer> NCCL_MAX_CTAS = Setting.of(TopoSettings.NCCL_MAX_CTAS);

  public static final Setting<String> NCCL_COMM_ID =
      Setting.text(
          "NCCL_COMM_ID",
          "",
          "host:port, with [ ] around an IPv6 address",
          "The address where rank 0 starts the bootstrap root; every rank then knows the unique"
              + " id.");

  public static final Setting<String> NCCL4J_COMM_SECRET =
      Setting.secretText(
          "NCCL4J_COMM_SECRET", "The secret that ranks need to join through NCCL_COMM_ID.");

  public static final Setting<String> NCCL_SOCKET_IFNAME =
      Setting.text(
          "NCCL_SOCKET_IFNAME",
          "",
          "prefixes such as eth,ib; = in front for whole names, ^ in front to exclude",
          "The network interfaces that sockets may use.");

  public static final Setting<String> NCCL_SOCKET_FAMILY =
      Setting.choice(
          "NCCL_SOCKET_FAMILY",
          "",
          List.of("AF_INET", "AF_INET6"),
          "The address family of sockets: IPv4 or IPv6; both if unset.");

  public static final Setting<Integer> NCCL_SOCKET_NTHREADS =
      Setting.number(
              "NCCL_SOCKET_NTHREADS",
              0,
              0,
              16,
              "Helper threads of a connection over sockets; if unset, chosen by interface and device.")
          .chosenIfUnset();

  public static final Setting<Integer> NCCL_NSOCKS_PERTHREAD =
      Setting.number(
              "NCCL_NSOCKS_PERTHREAD",
              1,
              1,
              64,
              "Sockets for each helper thread; if unset, chosen by the interface.")
          .chosenIfUnset();

  public static final Setting<String> NCCL4J_NET_CHECKSUM =
      Setting.choice(
          "NCCL4J_NET_CHECKSUM",
          "none",
          List.of("none", "crc32c"),
          "The checksum of each message over sockets: CRC32C finds data that memory, NICs or"
              + " switches have changed. Other networks have none, and a warning says so. The same on"
              + " all ranks.");

  public static final Setting<String> NCCL4J_NET_ZERO_COPY =
      Setting.choice(
          "NCCL4J_NET_ZERO_COPY",
          "registered",
          List.of("registered", "all", "off"),
          "The buffers from which ranks on host devices send whole steps to other hosts, and into"
              + " which they receive them, without a copy through slots. registered: those of"
              + " windows and register, over sockets for sends alone; all: over sockets any; off:"
              + " none. An operation then ends on a sender only when the receivers have its data."
              + " NCCL4J_SINGLE_COPY=off turns it off too. GPUs put, send and receive registered"
              + " memory so where the NIC reaches them, unless it is off.");

  public static final Setting<Duration> NCCL4J_NET_FAILOVER_TIMEOUT =
      Setting.durationOrZero(
          "NCCL4J_NET_FAILOVER_TIMEOUT",
          Duration.ofSeconds(10),
          "The longest time that the replacement of a connection's broken socket may take; 0: no"
              + " failover. The same on all ranks.");

  public static final Setting<Duration> NCCL4J_NET_SILENCE_TIMEOUT =
      Setting.durationOrZero(
          "NCCL4J_NET_SILENCE_TIMEOUT",
          Duration.ofSeconds(8),
          "The silence of a socket after which another socket replaces it; 0: never. The same on"
              + " all ranks.");

  public static final Setting<PortRange> NCCL4J_BOOTSTRAP_PORTS =
      Setting.of(
              "NCCL4J_BOOTSTRAP_PORTS",
              PortRange.ANY,
              "a port or a range of ports within 1-65535, such as 29500-29600",
              "The ports of listening sockets; if unset, the system chooses free ones. A host needs one"
                  + " for each process of each communicator, one more for each if they use a network,"
                  + " and one for each unique id that is created there.",
              new PortsParser())
          .chosenIfUnset();

  public static final Setting<String> NCCL_HOSTID =
      Setting.text(
          "NCCL_HOSTID",
          "",
          "any text",
          "Replaces the host's identity: ranks with the same value count as ranks of one host.");

  public static final Setting<String> NCCL_CHECK_MODE =
      Setting.choice(
          "NCCL_CHECK_MODE",
          "DEFAULT",
          List.of("DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"),
          "The checks of calls. DEFAULT checks each rank's own arguments, at almost no cost."
              + " DEBUG_LOCAL also refuses buffers that overlap, except in place. DEBUG_GLOBAL also"
              + " compares the ranks' calls, and finds communicators that ranks use in different"
              + " orders.");

  public static final Setting<Boolean> NCCL_SHM_DISABLE = Setting.of(TopoSettings.NCCL_SHM_DISABLE);

  public static final Setting<Boolean> NCCL_MULTI_RANK_GPU_ENABLE =
      Setting.flag(
          "NCCL_MULTI_RANK_GPU_ENABLE",
          false,
          "Allows several ranks of a communicator on one GPU. The GPU must run their kernels at the"
              + " same time: while one kernel waits for another, the driver's work on the whole GPU"
              + " waits too (loading kernels, allocating and freeing memory). The streams of a GPU"
              + " share a few queues: launch the operations of such ranks in one group, or set"
              + " CUDA_DEVICE_MAX_CONNECTIONS=32.");

  public static final Setting<Boolean> NCCL_P2P_DISABLE = Setting.of(TopoSettings.NCCL_P2P_DISABLE);

  public static final Setting<Integer> NCCL_NVLS_ENABLE = Setting.of(TopoSettings.NCCL_NVLS_ENABLE);

  public static final Setting<Integer> NCCL_NVLS_NCHANNELS =
      Setting.of(TopoSettings.NCCL_NVLS_NCHANNELS);

  public static final Setting<Integer> NCCL_NVLS_CHUNKSIZE =
      Setting.number(
          "NCCL_NVLS_CHUNKSIZE",
          0,
          0,
          1 << 24,
          "Bytes of a chunk of NVLS, rounded up to 512; 0: the device chooses.");

  public static final Setting<String> NCCL4J_NVLS_MODE =
      Setting.choice(
          "NCCL4J_NVLS_MODE",
          "auto",
          List.of("auto", "hardware", "emulated", "off"),
          "The implementation of NVLS: the switch (hardware), the device (emulated), or none (off);"
              + " auto is the switch on GPUs, and on the host device the emulation if NCCL_ALGO"
              + " names NVLS.");

  public static final Setting<String> NCCL4J_NVLS_CREATE =
      Setting.choice(
          "NCCL4J_NVLS_CREATE",
          "auto",
          List.of("auto", "creation", "operation"),
          "When NVLS is created: with the communicator (creation), or at the first operation that"
              + " uses it (operation); auto: with the communicator if NCCL_ALGO or"
              + " NCCL4J_NVLS_MODE names NVLS, else at an operation.");

  public static final Setting<Boolean> NCCL4J_NVLS_TEST =
      Setting.flag(
          "NCCL4J_NVLS_TEST",
          true,
          "Tests NVLS before its first use against sums that are computed without it; if one is"
              + " wrong, NVLS is not used.");

  public static final Setting<String> NCCL4J_TRANSPORTS =
      Setting.text(
          "NCCL4J_TRANSPORTS",
          "",
          "names of transports, best first, such as P2P,SHM",
          "The transports to use; if unset or empty all, by priority and name.");

  public static final Setting<String> NCCL_NET =
      Setting.text(
          "NCCL_NET",
          "",
          "names of networks, best first, such as Socket",
          "The networks of the NET transport; if unset or empty all, by priority and name.");

  public static final Setting<String> NCCL_NET_PLUGIN =
      Setting.text(
          "NCCL_NET_PLUGIN",
          "",
          "names NAME of files libnccl-net-NAME.so, or files, separated by commas; none: no plug-in",
          "Network plug-ins for NCCL; the first that can be loaded is used. If unset,"
              + " libnccl-net.so if it exists.");

  public static final Setting<String> NCCL4J_SHM =
      Setting.of(
          "NCCL4J_SHM",
          "memfd",
          "memfd, devshm, or the absolute name of a directory",
          "The source of shared memory between processes.",
          new MemorySourceParser());

  public static final Setting<String> NCCL4J_SINGLE_COPY =
      Setting.choice(
          "NCCL4J_SINGLE_COPY",
          "auto",
          List.of("auto", "threads", "all", "off"),
          "The ranks on host devices that read large steps directly from the senders' buffers,"
              + " not from slots that the senders copy into. threads: ranks of one process;"
              + " auto, all: also ranks of several processes of a machine; off: none. Between"
              + " processes, memory that the device allocated is mapped; other memory is read"
              + " if process_vm_readv works (all) or if a measurement"
              + " finds it faster than two copies (auto), whose times are kept in nccl4j/ in"
              + " $XDG_CACHE_HOME or ~/.cache unless NCCL4J_PROBE is 0. An operation then ends on a"
              + " sender only when the receivers have read its data.");

  public static final Setting<Long> NCCL_WIN_STRIDE =
      Setting.bytes(
          "NCCL_WIN_STRIDE",
          0,
          "Bytes of addresses reserved for each rank's windows; 0: more than a GPU's memory, on"
              + " the host twice the rank's share of the memory.");

  public static final Setting<Duration> NCCL4J_INIT_TIMEOUT =
      Setting.duration(
          "NCCL4J_INIT_TIMEOUT",
          Duration.ofSeconds(60),
          "The longest time that the creation of a communicator may take.");

  public static final Setting<Duration> NCCL4J_TIMEOUT =
      Setting.duration(
          "NCCL4J_TIMEOUT",
          Duration.ofMinutes(10),
          "The longest time that an operation may wait for other ranks.");

  public static final Setting<String> NCCL_TOPO_FILE =
      Setting.text(
          "NCCL_TOPO_FILE",
          "",
          "the name of a topology file",
          "A topology file that replaces the detection of the machine, but for networks if it has"
              + " none, or without GPUs is its start; unset: the hypervisor's, if there is one.");

  public static final Setting<String> NCCL_TOPO_DUMP_FILE =
      Setting.text(
          "NCCL_TOPO_DUMP_FILE",
          "",
          "the name of a file to write",
          "The file to which a rank writes the topology of its machine.");

  public static final Setting<Integer> NCCL_TOPO_DUMP_FILE_RANK =
      Setting.number(
          "NCCL_TOPO_DUMP_FILE_RANK",
          0,
          0,
          Integer.MAX_VALUE,
          "The rank that writes NCCL_TOPO_DUMP_FILE.");

  public static final Setting<String> NCCL_GRAPH_FILE = Setting.of(TopoSettings.NCCL_GRAPH_FILE);

  public static final Setting<String> NCCL_GRAPH_DUMP_FILE =
      Setting.text(
          "NCCL_GRAPH_DUMP_FILE",
          "",
          "the name of a file to write",
          "The file to which a rank writes the rings and trees of its node.");

  public static final Setting<Integer> NCCL_GRAPH_DUMP_FILE_RANK =
      Setting.number(
          "NCCL_GRAPH_DUMP_FILE_RANK",
          0,
          0,
          Integer.MAX_VALUE,
          "The rank that writes NCCL_GRAPH_DUMP_FILE.");

  public static final Setting<String> NCCL_PROFILER_PLUGIN =
      Setting.text(
          "NCCL_PROFILER_PLUGIN",
          "",
          "the name of a profiler on the class path or module path, or none",
          "The profiler that receives operations; if unset, all profilers that are found.");

  public static final Setting<Duration> NCCL4J_HEARTBEAT_TIMEOUT =
      Setting.duration(
          "NCCL4J_HEARTBEAT_TIMEOUT",
          Duration.ofSeconds(30),
          "The longest silence of a rank before all other ranks report it as dead.");

  public static final Setting<String> NCCL_CONF_FILE =
      Setting.text(
          "NCCL_CONF_FILE",
          "",
          "the name of a readable file",
          "A file with lines NAME=VALUE that replaces ~/.nccl.conf.");

  private static final List<Setting<?>> GENERAL =
      List.of(
          NCCL_ALGO,
          NCCL_PROTO,
          NCCL_MIN_CTAS,
          NCCL_MAX_CTAS,
          NCCL_COMM_ID,
          NCCL4J_COMM_SECRET,
          NCCL_SOCKET_IFNAME,
          NCCL_SOCKET_FAMILY,
          NCCL_SOCKET_NTHREADS,
          NCCL_NSOCKS_PERTHREAD,
          NCCL4J_NET_CHECKSUM,
          NCCL4J_NET_ZERO_COPY,
          NCCL4J_NET_FAILOVER_TIMEOUT,
          NCCL4J_NET_SILENCE_TIMEOUT,
          NCCL4J_BOOTSTRAP_PORTS,
          NCCL_HOSTID,
          NCCL_CHECK_MODE,
          NCCL_SHM_DISABLE,
          NCCL_MULTI_RANK_GPU_ENABLE,
          NCCL_P2P_DISABLE,
          NCCL_NVLS_ENABLE,
          NCCL_NVLS_NCHANNELS,
          NCCL_NVLS_CHUNKSIZE,
          NCCL4J_NVLS_MODE,
          NCCL4J_NVLS_CREATE,
          NCCL4J_NVLS_TEST,
          NCCL4J_TRANSPORTS,
          NCCL_NET,
          NCCL_NET_PLUGIN,
          NCCL4J_SHM,
          NCCL4J_SINGLE_COPY,
          NCCL_WIN_STRIDE,
          NCCL4J_INIT_TIMEOUT,
          NCCL4J_TIMEOUT,
          NCCL_PROFILER_PLUGIN,
          NCCL4J_HEARTBEAT_TIMEOUT,
          NCCL_TOPO_FILE,
          NCCL_TOPO_DUMP_FILE,
          NCCL_TOPO_DUMP_FILE_RANK,
          NCCL_GRAPH_FILE,
          NCCL_GRAPH_DUMP_FILE,
          NCCL_GRAPH_DUMP_FILE_RANK,
          NCCL_CONF_FILE);

  private static final List<Setting<?>> ALL =
      joined(
          List.of(
              GENERAL,
              PlanSettings.ALL,
              GpuSettings.ALL,
              TopologySettings.besides(GENERAL),
              ScaleSettings.ALL,
              TlsSettings.ALL,
              DebugSettings.ALL,
              DropInSettings.ALL,
              InfiniBandSettings.ALL));

  /** All settings of some lists, in their order. A loop: see below. */
  private static List<Setting<?>> joined(List<List<Setting<?>>> lists) {
    List<Setting<?>> all = new ArrayList<>();
    for (List<Setting<?>> each : lists) {
      all.addAll(each);
    }
    return List.copyOf(all);
  }

  /** The settings that are on or off, by name. */
  private static final class Flags {
    private static final Map<String, Setting<?>> ALL =
        Settings.ALL.stream()
            .filter(setting -> setting.defaultValue() instanceof Boolean)
            .collect(Collectors.toMap(Setting::name, setting -> setting));
  }

  /**
   * A setting with its value, for people.
   *
   * @param setting the declaration
   * @param value the value as text; stars for a secret
   * @param origin where it was set; "default" if nowhere
   */
  public record Entry(Setting<?> setting, String value, String origin) {}

  // Parsers are classes: the JVM takes half a millisecond to link a method reference, and the first
  // call of a process waits for it.

  private record PortsParser() implements Function<String, PortRange> {
    @Override
    public PortRange apply(String text) {
      return PortRange.parse(text);
    }
  }

  private record MemorySourceParser() implements Function<String, String> {
    @Override
    public String apply(String text) {
      String word = text.toLowerCase(Locale.ROOT);
      if (!List.of("memfd", "devshm").contains(word) && !text.startsWith("/")) {
        throw new IllegalArgumentException("neither a word nor an absolute name");
      }
      return text.startsWith("/") ? text : word;
    }
  }

  private final Environment environment;

  /** The values in an environment. */
  public Settings(Environment environment) {
    this.environment = environment;
  }

  /**
   * The values for a communicator in this process.
   *
   * @throws org.nccl4j.device.InvalidArgumentException if one of the overrides is no value of its
   *     setting
   */
  public static Settings ofProcess(Map<String, String> overrides) {
    return new Settings(Environment.ofProcess(overrides)).checked(overrides);
  }

  /**
   * The values for a command in this process, of which an option gives some.
   *
   * @param option for messages
   * @throws InvalidArgumentException if there is no such setting, or a value of the option's is no
   *     value of its setting
   */
  public static Settings ofProcess(String option, Map<String, String> values) {
    requireDeclared(option, values.keySet());
    Settings settings = new Settings(Environment.ofProcess(values, option));
    try {
      return settings.checked(values);
    } catch (InvalidArgumentException e) {
      throw new InvalidArgumentException(ErrorId.OPTION, e.problem(), e.remedy(), e);
    }
  }

  /** These values alone, whatever is set in this process. */
  public static Settings alone(Map<String, String> values) {
    return new Settings(Environment.of(values));
  }

  /** These under others, which are stronger; throws as {@link #ofProcess}. */
  public Settings with(Map<String, String> overrides) {
    return overrides.isEmpty()
        ? this
        : new Settings(environment.with(overrides)).checked(overrides);
  }

  /** Checks overrides at once, even those that are never read. */
  private Settings checked(Map<String, String> overrides) {
    for (Setting<?> setting : ALL) {
      if (overrides.containsKey(setting.name())) {
        get(setting);
      }
    }
    return this;
  }

  /** The declared settings, in the order of the settings page. */
  public static List<Setting<?>> declared() {
    return ALL;
  }

  @Override
  public <T> Optional<T> find(Setting<T> setting) {
    Optional<Environment.Value> set = environment.find(setting.name());
    return set.isEmpty()
        ? Optional.empty()
        : Optional.of(setting.parse(set.get().text(), set.get().origin()));
  }

  @Override
  public Optional<String> setting(String name) {
    return environment.find(name).map(value -> text(name, value));
  }

  /** Every name that is set, declared or not, with its text as {@link #setting} gives it. */
  public Map<String, String> texts() {
    Map<String, String> texts = new TreeMap<>();
    environment.all().forEach((name, value) -> texts.put(name, text(name, value)));
    return texts;
  }

  private static String text(String name, Environment.Value value) {
    Setting<?> flag = Flags.ALL.get(name);
    if (flag == null) {
      return value.text();
    }
    return flag.parse(value.text(), value.origin()).equals(Boolean.TRUE) ? "1" : "0";
  }

  /** The values of the settings that nccl-topo reads. */
  public TopoSettings topology() {
    Map<String, Object> values = new TreeMap<>();
    for (Setting<?> setting : ALL) {
      find(setting).ifPresent(value -> values.put(setting.name(), value));
    }
    return TopoSettings.of(values);
  }

  /** The source of a setting's value for messages, such as " (environment)"; empty if unset. */
  String origin(Setting<?> setting) {
    return environment.find(setting.name()).map(set -> " (" + set.origin() + ")").orElse("");
  }

  /** True if the user set it, anywhere. */
  public boolean isSet(Setting<?> setting) {
    return environment.find(setting.name()).isPresent();
  }

  /** Every declared setting with its value and where that came from. */
  public List<Entry> entries() {
    List<Entry> entries = new ArrayList<>();
    for (Setting<?> setting : ALL) {
      Optional<Environment.Value> set = environment.find(setting.name());
      String value = set.map(Environment.Value::text).orElse(setting.defaultText());
      entries.add(
          new Entry(
              setting,
              setting.secret() && set.isPresent() ? "***" : value,
              set.map(Environment.Value::origin).orElse("default")));
    }
    return entries;
  }

  /** Settings by name for people: stars for the value of a secret. */
  public static SortedMap<String, String> shown(Map<String, String> texts) {
    SortedMap<String, String> shown = new TreeMap<>(texts);
    for (Setting<?> setting : ALL) {
      if (setting.secret()) {
        shown.computeIfPresent(setting.name(), (name, text) -> "***");
      }
    }
    return shown;
  }

  /** NCCL's variables that are no settings here; for each a sentence on what is done instead. */
  public static SortedMap<String, String> otherVariables() {
    return OtherVariables.all();
  }

  private static void requireDeclared(String option, Set<String> names) {
    List<String> known = ALL.stream().<String>map(Setting::name).toList();
    for (String name : new TreeSet<>(names)) {
      if (!known.contains(name)) {
        String near = SettingHints.nearest(name, known);
        throw new InvalidArgumentException(
            ErrorId.OPTION,
            "%s %s: there is no setting %s%s"
                .formatted(option, name, name, near == null ? "" : "; did you mean " + near + "?"),
            "name one of docs/reference/settings.md");
      }
    }
  }

  /**
   * A sentence for each name that is set and has no effect on a communicator, and for each file
   * with lines that are ignored.
   */
  public List<String> hints() {
    List<String> hints = new ArrayList<>(environment.ignoredLines());
    hints.addAll(
        SettingHints.hints(environment.all(), ALL.stream().<String>map(Setting::name).toList()));
    return hints;
  }
}
