package org.nccl4j.it.perf;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.nccl4j.api.Devices;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.file.OutputFile;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.peer.OpenMpi;
import org.nccl4j.it.perf.peer.QuantisedPeer;
import org.nccl4j.it.perf.rank.RegistrationMode;
import org.nccl4j.it.perf.report.Machine;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.Placement;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.NameLists;

/** Turns options into settings, or says which option is wrong, why, and what would be right. */
final class Validation {
  private static final int MOST_RANKS = 256;

  private static final int USUAL_SECONDS = 60;
  private static final int MOST_SECONDS = 86_400;

  private static final int WARMUP = 1_500;
  private static final int CROWDED_WARMUP = 5_000;
  private static final int CORES_OF_A_JVM = 4;

  private final PerfOptions options;

  Validation(PerfOptions options) {
    this.options = options;
  }

  /**
   * The settings.
   *
   * @param watching outputs that are shown while it runs
   * @throws InvalidArgumentException or {@link InvalidUsageException} for the first wrong option
   */
  PerfSettings settings(PerfSettings.Watching watching) {
    Device.Kind kind = kind();
    refuseWhatDoesNotApply(kind);
    PerfSettings.Who ranks = ranks(kind);
    Comparison comparison = comparison(kind);
    if (kind == Device.Kind.CUDA && options.hosts.isEmpty()) {
      refuseMissingGpus(ranks.count());
    }
    PerfSettings.What what =
        new PerfSettings.What(
            workloads(ranks.count(), !"all".equals(options.collective)),
            sizes(),
            each("-d", options.type, DataType.values(), DataType::label),
            ops(),
            roots(ranks.count()));
    boolean mpi = comparison.with() == Comparison.With.MPI;
    if (mpi) {
      refuseWhatMpiLacks(what);
      refuseTimesThatMpiLacks();
    }
    if (comparison.with() == Comparison.With.QUANTISED) {
      refuseWhatIsNotQuantised(what);
    }
    // The memory of other hosts is not known here.
    if (kind == Device.Kind.HOST && ranks.placement().isHere()) {
      refuseWhatDoesNotFit(what.sizes().max() * (mpi ? 2 : 1), ranks.count());
    }
    return new PerfSettings(
        what,
        how(),
        ranks,
        new PerfSettings.Outputs(
            file("--json", options.json), file("--html", options.html), comparison, watching));
  }

  private Device.Kind kind() {
    return switch (options.device) {
      case "host" -> Device.Kind.HOST;
      case "cuda" -> Device.Kind.CUDA;
      case "auto" -> Devices.cuda().list().isEmpty() ? Device.Kind.HOST : Device.Kind.CUDA;
      default ->
          throw new InvalidArgumentException(
              ErrorId.OPTION,
              "--device " + options.device + ": there is no such device",
              "use --device host or --device cuda");
    };
  }

  private void refuseWhatDoesNotApply(Device.Kind kind) {
    between("-g", options.gpus, 1, MOST_RANKS);
    between("-G", options.graph, 0, 1000);
    refuseIf(
        kind == Device.Kind.HOST && options.gpus != 1,
        "-g " + options.gpus + ": a thread drives one rank on the host device",
        "use -t for more ranks");
    refuseIf(
        kind == Device.Kind.HOST && options.graph != 0,
        "-G " + options.graph + ": the host device has no graphs",
        "leave it out");
    if (options.ctaPolicy != null) {
      between("-x", options.ctaPolicy, 0, 3);
      refuseIf(
          kind == Device.Kind.HOST,
          "-x " + options.ctaPolicy + ": the host device has no blocks and no copy engines",
          "leave it out, or use --device cuda");
    }
    refuseIf(
        options.graph != 0 && options.blocking != 0,
        "-G and -z are both given: a graph's iterations are not waited for one by one",
        "leave one of them out");
    refuseIf(
        options.json != null && options.json.equals(options.html),
        "--json and --html name one file, " + options.json,
        "name two files");
    refuseIf(
        !options.launcher.equals(Placement.SSH) && options.hosts.isEmpty(),
        "--launcher " + options.launcher + ": there are no hosts to start it for",
        "name them by --hosts, or leave it out");
    refuseIf(
        options.processes != null && options.gpus != 1,
        "--processes and -g " + options.gpus + ": each process drives one GPU",
        "leave -g out");
    refuseIf(
        kind == Device.Kind.HOST && (options.blocks || options.overlap),
        options.overlap
            ? "--overlap: the host device has no multiprocessors that operations share with a"
                + " computing kernel"
            : "--blocks: operations of the host device have no blocks",
        "leave it out, or use --device cuda");
    if (options.overlap) {
      refuseBesideOverlap();
    }
    between("-R", options.register, 0, RegistrationMode.values().length - 1);
  }

  private void refuseBesideOverlap() {
    refuseBesideOverlap("-G", options.graph != 0);
    refuseBesideOverlap("-z", options.blocking != 0);
    refuseBesideOverlap("-m", options.aggregate != 1);
    refuseBesideOverlap("-g", options.gpus != 1);
    refuseBesideOverlap("--json", options.json != null);
    refuseBesideOverlap("--html", options.html != null);
  }

  private static void refuseBesideOverlap(String other, boolean given) {
    refuseIf(
        given,
        "--overlap and %s are both given: operations beside a computation are measured one by one,"
                .formatted(other)
            + " and printed",
        "leave one of them out");
  }

  private static void refuseMissingGpus(int nRanks) {
    int gpus = Devices.cuda().list().size();
    refuseIf(
        gpus == 0,
        "--device cuda: " + Devices.cuda().absence().orElse("there is no GPU"),
        "repair that, or use --device host");
    refuseIf(
        nRanks > gpus,
        "%d ranks: each needs a GPU, and this process sees %d".formatted(nRanks, gpus),
        "use fewer threads (-t) or GPUs a thread (-g), or look at CUDA_VISIBLE_DEVICES");
  }

  private PerfSettings.Who ranks(Device.Kind kind) {
    refuseIf(
        options.threads != null && options.processes != null,
        "-t and --processes are both given: ranks are threads or processes, not both",
        "leave one of them out");
    boolean processes = options.processes != null;
    refuseIf(
        !processes && !options.hosts.isEmpty(),
        "--hosts is given, but ranks are threads of this process",
        "add --processes N");
    Integer asked = processes ? options.processes : options.threads;
    int threads = asked == null ? 1 : asked;
    between(processes ? "--processes" : "-t", threads, 1, MOST_RANKS);
    Map<String, String> settings = new HashMap<>();
    names("--algo", options.algorithm, Algorithm.names())
        .ifPresent(value -> settings.put(Settings.NCCL_ALGO.name(), value));
    names("--proto", options.protocol, Stream.of(Protocol.values()).map(Protocol::label).toList())
        .ifPresent(value -> settings.put(Settings.NCCL_PROTO.name(), value));
    if (options.ctaPolicy != null) {
      settings.put(PlanSettings.NCCL_CTA_POLICY.name(), options.ctaPolicy.toString());
    }
    int timeout = timeout();
    if (!List.of("core", "none").contains(options.binding)) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "--bind-to " + options.binding + ": there is no such binding",
          "use core or none");
    }
    return new PerfSettings.Who(
        threads * options.gpus,
        options.gpus,
        kind,
        processes,
        Placement.of(options.hosts, options.launcher),
        settings,
        transports(),
        timeout,
        RegistrationMode.values()[options.register],
        options.binding.equals("core")
            && kind == Device.Kind.HOST
            && (processes || options.gpus == 1));
  }

  /** Those allowed, all of which this process can load: ranks have the same class path. */
  private List<String> transports() {
    String wanted = String.join(",", options.transports);
    try {
      TransportRegistry.providers(wanted);
    } catch (InvalidArgumentException e) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "--transport %s: %s"
              .formatted(wanted, e.problem().replaceFirst("^NCCL4J_TRANSPORTS=\\S* ", "it ")),
          e.remedy(),
          e);
    }
    return List.of(options.transports);
  }

  /** Seconds, at least 1. */
  private int timeout() {
    Optional<Duration> set = Settings.ofProcess(Map.of()).find(Settings.NCCL4J_TIMEOUT);
    if (options.timeout != null) {
      between("-T", options.timeout, 1, MOST_SECONDS);
      return options.timeout;
    }
    return set.map(time -> (int) Math.max(1, Math.min(MOST_SECONDS, time.toSeconds())))
        .orElse(USUAL_SECONDS);
  }

  private PerfSettings.How how() {
    int jitWarmup = options.jitWarmup == null ? jitWarmup() : options.jitWarmup;
    between("--jit-warmup", jitWarmup, 0, 600_000);
    between("-m", options.aggregate, 1, 1000);
    between("-c", options.checks, 0, 1000);
    between("-z", options.blocking, 0, 1);
    between("-a", options.average, 0, 3);
    return new PerfSettings.How(
        automaticOr("-n", options.iterations, 1),
        automaticOr("-w", options.warmup, 0),
        jitWarmup,
        options.aggregate,
        options.checks,
        options.blocking == 1,
        options.graph,
        Averaging.values()[options.average],
        options.explain,
        options.blocks,
        options.overlap);
  }

  /** Milliseconds until the JVMs have compiled what the ranks run. */
  private int jitWarmup() {
    int processes = options.processes == null ? 1 : options.processes;
    boolean crowded = Runtime.getRuntime().availableProcessors() < CORES_OF_A_JVM * processes;
    return processes > 1 && crowded ? CROWDED_WARMUP : WARMUP;
  }

  private List<Workload> workloads(int nRanks, boolean explicit) {
    List<Workload> workloads =
        each("COLLECTIVE", options.collective, Workload.values(), Workload::label);
    List<Workload> possible = new ArrayList<>();
    for (Workload workload : workloads) {
      String refusal = workload.refusal(nRanks);
      refuseIf(explicit && !refusal.isEmpty(), refusal, "use 1, 2, 4, 8 or more ranks");
      if (refusal.isEmpty()) {
        possible.add(workload);
      }
    }
    return possible;
  }

  private SizeRange sizes() {
    refuseIf(
        options.stepBytes != null && options.stepFactor != null,
        "-i and -f are both given: sizes grow by a step or by a factor, not by both",
        "leave one of them out");
    long min = size("-b", options.minBytes);
    long max = size("-e", options.maxBytes);
    if (options.stepFactor != null) {
      between("-f", options.stepFactor, 1, 1 << 20);
      refuseIf(
          options.stepFactor == 1 && min < max,
          "-f 1: the sizes never grow",
          "give -f a factor above 1, or -i a step");
    }
    if (options.stepBytes != null) {
      return new SizeRange(min, max, size("-i", options.stepBytes), 1);
    }
    return new SizeRange(min, max, 0, options.stepFactor == null ? 4 : options.stepFactor);
  }

  private static long size(String option, String text) {
    return ByteSize.parse(option, text).bytes();
  }

  private List<RedOp> ops() {
    refuseIf(
        "mulsum".equals(options.op),
        "-o mulsum: perf does not measure sums of scaled elements",
        "use -o sum");
    return each("-o", options.op, RedOp.values(), RedOp::label);
  }

  private List<Integer> roots(int nRanks) {
    between("-r", options.root, -1, nRanks - 1);
    return options.root >= 0 ? List.of(options.root) : IntStream.range(0, nRanks).boxed().toList();
  }

  private Comparison comparison(Device.Kind kind) {
    if (options.compare == null) {
      return Comparison.NONE;
    }
    String[] words = options.compare.split("=", 2);
    if (words[0].equals("quantised")) {
      refuseIf(
          options.overlap,
          "--compare quantised: quantised operations are not measured beside a computation",
          "leave --overlap out");
      return quantised(words.length > 1 ? words[1] : "f8e4m3:128");
    }
    if (words[0].equals("libnccl")) {
      refuseIf(
          kind == Device.Kind.HOST,
          "--compare libnccl: libnccl works on GPUs only",
          "use it with --device cuda");
      return new Comparison(Comparison.With.LIBNCCL, words.length > 1 ? words[1] : Libnccl.FILE);
    }
    if (!options.compare.equals("mpi")) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "--compare " + options.compare + ": perf cannot measure that",
          "use --compare mpi, libnccl, libnccl=FILE, quantised, or quantised=FORMAT:BLOCK");
    }
    refuseIf(
        kind == Device.Kind.CUDA,
        "--compare mpi: it is measured on host memory",
        "use it with --device host");
    return new Comparison(Comparison.With.MPI, "");
  }

  private static Comparison quantised(String how) {
    String[] words = how.split(":", 2);
    for (DataType format : new DataType[] {DataType.FLOAT8_E4M3, DataType.INT8}) {
      for (int block : new int[] {32, 128}) {
        if (words.length > 1
            && words[0].equals(format.label())
            && words[1].equals(Integer.toString(block))) {
          return new Comparison(Comparison.With.QUANTISED, "", format, block);
        }
      }
    }
    throw new InvalidArgumentException(
        ErrorId.OPTION,
        "--compare quantised=%s: there is no such quantisation".formatted(how),
        "use f8e4m3 or int8, a colon, and 32 or 128");
  }

  private static void refuseWhatIsNotQuantised(PerfSettings.What what) {
    for (Workload workload : what.workloads()) {
      for (DataType type : what.types()) {
        for (RedOp op : what.ops()) {
          refuseIf(
              !QuantisedPeer.has(workload, type) || op != RedOp.SUM && op != RedOp.AVG,
              "--compare quantised: there is no quantised %s of %s by %s"
                  .formatted(workload.label(), type.label(), op.label()),
              "use all_reduce or reduce_scatter, a floating-point type of 2 or 4 bytes, and -o"
                  + " sum or avg");
        }
      }
    }
  }

  private void refuseWhatDoesNotFit(long bytes, int nRanks) {
    ByteSize need = new ByteSize(bytes * 2 * nRanks);
    ByteSize available = new ByteSize(Machine.availableMemory());
    refuseIf(
        available.bytes() > 0 && need.bytes() > available.bytes(),
        "-e %s: the buffers of %d ranks need %s of memory, and %s are available"
            .formatted(options.maxBytes, nRanks, need.rounded(), available.rounded()),
        "give a smaller -e, or fewer ranks");
  }

  private void refuseTimesThatMpiLacks() {
    refuseIf(
        options.average != Averaging.AVG.ordinal(),
        "--compare mpi and -a %d: Open MPI's time is the mean of its ranks"
            .formatted(options.average),
        "leave out -a, or use -a " + Averaging.AVG.ordinal());
    refuseIf(
        options.blocking != 0,
        "--compare mpi and -z %d: Open MPI's ranks do not wait for each other in each iteration"
            .formatted(options.blocking),
        "leave out -z");
  }

  private static void refuseWhatMpiLacks(PerfSettings.What what) {
    for (DataType type : what.types()) {
      refuseIf(
          !OpenMpi.has(type),
          "--compare mpi: Open MPI has no type " + type.label(),
          "choose another -d, or leave --compare out");
      refuseIf(
          what.sizes().max() / type.bytes() > Integer.MAX_VALUE,
          "--compare mpi: MPI counts at most 2147483647 elements, and -e asks for more",
          "give a smaller -e");
    }
    boolean reduces = what.workloads().stream().anyMatch(Workload::reduces);
    refuseIf(
        reduces && what.ops().contains(RedOp.AVG),
        "--compare mpi: Open MPI has no operator avg",
        "choose another -o, or leave --compare out");
  }

  private static <T> List<T> each(
      String option, String text, T[] values, Function<T, String> label) {
    if ("all".equals(text)) {
      return List.of(values);
    }
    List<T> found = new ArrayList<>();
    for (String name : text.split(",", -1)) {
      T named =
          Arrays.stream(values)
              .filter(value -> label.apply(value).equals(name))
              .findFirst()
              .orElseThrow(() -> unknown(option, name, Arrays.stream(values).map(label).toList()));
      found.add(named);
    }
    return found;
  }

  private static InvalidArgumentException unknown(String option, String name, List<String> known) {
    return new InvalidArgumentException(
        ErrorId.OPTION,
        "%s %s is unknown".formatted(option, name),
        "use one or more of " + String.join(",", known) + ", or all");
  }

  /** Lists for all collectives and for single ones, in the form of NCCL_ALGO and NCCL_PROTO. */
  private static Optional<String> names(String option, String text, List<String> known) {
    if (text == null) {
      return Optional.empty();
    }
    List<String> unknown = NameLists.parse(text).unknownNames(known);
    if (text.isBlank() || !unknown.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          option + " " + text + ": there is no '" + String.join(",", unknown) + "'",
          "use one or several of " + String.join(", ", known));
    }
    return Optional.of(text);
  }

  private static OptionalInt automaticOr(String option, String text, int least) {
    if ("auto".equals(text.toLowerCase(Locale.ROOT))) {
      return OptionalInt.empty();
    }
    try {
      int value = Integer.parseInt(text);
      between(option, value, least, 100_000_000);
      return OptionalInt.of(value);
    } catch (NumberFormatException e) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          option + " " + text + " is not a number",
          "use a whole number, or auto",
          e);
    }
  }

  private static void refuseIf(boolean wrong, String problem, String remedy) {
    if (wrong) {
      throw new InvalidUsageException(ErrorId.OPTIONS, problem, remedy);
    }
  }

  private static void between(String option, int value, int least, int most) {
    if (value < least || value > most) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "%s %d is out of range".formatted(option, value),
          "use a number from %d to %d".formatted(least, most));
    }
  }

  private static Optional<Path> file(String option, Path path) {
    if (path == null) {
      return Optional.empty();
    }
    try {
      OutputFile.requireWritable(path);
    } catch (IOException e) {
      throw OutputFile.unwritable(option, path, e);
    }
    return Optional.of(path);
  }
}
