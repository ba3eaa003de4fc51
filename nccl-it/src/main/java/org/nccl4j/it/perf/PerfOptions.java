package org.nccl4j.it.perf;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.device.DataType;
import org.nccl4j.it.run.Placement;
import org.nccl4j.operation.Algorithm;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** The options of {@code perf} as they are written; nccl-tests' where it has them. */
final class PerfOptions {
  /** The names of all data types. */
  static final class TypeLabels extends ArrayList<String> {
    private static final long serialVersionUID = 1L;

    TypeLabels() {
      super(Stream.of(DataType.values()).map(DataType::label).toList());
    }
  }

  /** The names of all algorithms. */
  static final class AlgorithmNames extends ArrayList<String> {
    private static final long serialVersionUID = 1L;

    AlgorithmNames() {
      super(Algorithm.names());
    }
  }

  @Parameters(
      index = "0",
      paramLabel = "COLLECTIVE",
      description =
          "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, alltoallv, gather, "
              + "scatter, sendrecv, hypercube, several of them with commas between, or all.")
  String collective;

  @Option(
      names = {"-b", "--minbytes"},
      paramLabel = "SIZE",
      defaultValue = "8",
      description = "First size (default: ${DEFAULT-VALUE}). Sizes take K, M and G.")
  String minBytes;

  @Option(
      names = {"-e", "--maxbytes"},
      paramLabel = "SIZE",
      defaultValue = "64M",
      description = "Last size (default: ${DEFAULT-VALUE}).")
  String maxBytes;

  @Option(
      names = {"-i", "--stepbytes"},
      paramLabel = "SIZE",
      description = "Sizes grow by this step.")
  String stepBytes;

  @Option(
      names = {"-f", "--stepfactor"},
      paramLabel = "N",
      description = "Sizes grow by this factor (default: 4).")
  Integer stepFactor;

  @Option(
      names = {"-n", "--iters"},
      paramLabel = "N|auto",
      defaultValue = "auto",
      description =
          "Iterations for each figure (default: ${DEFAULT-VALUE}: five rounds of at least 5, as"
              + " many as fit in 15 ms, the median round counts).")
  String iterations;

  @Option(
      names = {"-w", "--warmup_iters"},
      paramLabel = "N|auto",
      defaultValue = "auto",
      description =
          "Operations before each timed round (default: ${DEFAULT-VALUE}, a fifth of the"
              + " iterations). See --jit-warmup too.")
  String warmup;

  @Option(
      names = {"--jit-warmup"},
      paramLabel = "MILLIS",
      description =
          "Time for which all sizes run before the sweep, so that the JVM compiles the code"
              + " (default: 1500, and 5000 for processes that have fewer than four cores each:"
              + " every JVM compiles for itself).")
  Integer jitWarmup;

  @Option(
      names = {"-m", "--agg_iters"},
      paramLabel = "N",
      defaultValue = "1",
      description = "Operations in one group (default: ${DEFAULT-VALUE}).")
  int aggregate;

  @Option(
      names = {"-c", "--check"},
      paramLabel = "N",
      defaultValue = "1",
      description = "Checked operations for each figure; 0 for none (default: ${DEFAULT-VALUE}).")
  int checks;

  @Option(
      names = {"-o", "--op"},
      paramLabel = "OP",
      defaultValue = "sum",
      description = "sum, prod, min, max, avg, or all (default: ${DEFAULT-VALUE}).")
  String op;

  @Option(
      names = {"-d", "--datatype"},
      paramLabel = "TYPE",
      completionCandidates = TypeLabels.class,
      defaultValue = "float",
      description = "${COMPLETION-CANDIDATES}, or all (default: ${DEFAULT-VALUE}).")
  String type;

  @Option(
      names = {"-r", "--root"},
      paramLabel = "RANK",
      defaultValue = "0",
      description = "Root rank; -1 for each in turn (default: ${DEFAULT-VALUE}).")
  int root;

  @Option(
      names = {"-t", "--nthreads"},
      paramLabel = "N",
      description = "Ranks, as threads of one process (default: 1).")
  Integer threads;

  @Option(
      names = {"--processes"},
      paramLabel = "N",
      description = "Ranks, as processes, instead of -t.")
  Integer processes;

  @Option(
      names = {"--hosts"},
      paramLabel = "A,B",
      description =
          "With --processes: hosts for the processes, filled evenly and in this order; default:"
              + " this host. nccl4j must be in the same directory on all of them.")
  List<String> hosts = List.of();

  @Option(
      names = {"--launcher"},
      paramLabel = "COMMAND",
      defaultValue = Placement.SSH,
      description =
          "With --hosts: the command that runs another one on a host; {host} is replaced by its"
              + " name (default: ${DEFAULT-VALUE}).")
  String launcher;

  @Option(
      names = {"-g", "--ngpus"},
      paramLabel = "N",
      defaultValue = "1",
      description =
          "GPUs a thread (default: ${DEFAULT-VALUE}; more than 1 on the CUDA device only).")
  int gpus;

  @Option(
      names = {"-G", "--cudagraph"},
      paramLabel = "N",
      defaultValue = "0",
      description = "Iterations in a CUDA graph, which is launched repeatedly; 0: no graph.")
  int graph;

  @Option(
      names = {"-R", "--local_register"},
      paramLabel = "0|1|2",
      defaultValue = "0",
      description =
          "1: each rank registers its buffers; 2: all ranks register them as windows; 0: neither.")
  int register;

  @Option(
      names = {"-x", "--cta_policy"},
      paramLabel = "0|1|2|3",
      description =
          "Like NCCL_CTA_POLICY: 1 has few blocks; 2 moves data by copy engines where it can, without"
              + " kernels between windows (-R 2); 3 does both; CUDA device only.")
  Integer ctaPolicy;

  @Option(
      names = {"-z", "--blocking"},
      paramLabel = "0|1",
      defaultValue = "0",
      description = "1: wait for each iteration and for all ranks (default: ${DEFAULT-VALUE}).")
  int blocking;

  @Option(
      names = {"-a", "--average"},
      paramLabel = "0..3",
      defaultValue = "1",
      description =
          "Ranks' times: 0 rank 0's, 1 mean, 2 least, 3 most (default: ${DEFAULT-VALUE}).")
  int average;

  @Option(
      names = {"-T", "--timeout"},
      paramLabel = "SECONDS",
      description =
          "Longest time that an operation may wait for other ranks (default: NCCL4J_TIMEOUT, or 60"
              + " if that is unset).")
  Integer timeout;

  @Option(
      names = {"--bind-to"},
      paramLabel = "core|none",
      defaultValue = "core",
      description =
          "Binds each rank of the host device, a process or a thread, to its own core if there are"
              + " enough, as mpirun does (default: ${DEFAULT-VALUE}).")
  String binding;

  @Option(
      names = {"--device"},
      paramLabel = "host|cuda",
      defaultValue = "auto",
      description =
          "Device of the buffers: host or cuda (default: cuda if there is a GPU, else" + " host).")
  String device;

  @Option(
      names = {"--algo"},
      paramLabel = "NAME",
      completionCandidates = AlgorithmNames.class,
      description =
          "Forces algorithms, like NCCL_ALGO: ${COMPLETION-CANDIDATES}. Direct algorithms and"
              + " CopyEngine need windows (-R); NVLSTree needs several hosts; Doubling is"
              + " for the host device on one host, Hierarchical for several hosts with as many"
              + " ranks each.")
  String algorithm;

  @Option(
      names = {"--proto"},
      paramLabel = "NAME",
      description = "Forces protocols, like NCCL_PROTO: LL, LL128, Simple.")
  String protocol;

  @Option(
      names = {"--transport"},
      paramLabel = "NAME",
      split = ",",
      description = "The transports allowed, best first, such as SHM.")
  String[] transports = {};

  @Option(
      names = {"--compare"},
      paramLabel = "mpi|libnccl|quantised",
      description =
          "Also measures the installed Open MPI (host device) or libnccl (libnccl=FILE names it;"
              + " CUDA device), and adds a column time/ours; for libnccl, the best of plain"
              + " and registered buffers. quantised=FORMAT:BLOCK (f8e4m3 or int8, 32 or 128)"
              + " measures our operations with quantised data; --explain shows their bytes.")
  String compare;

  @Option(
      names = {"--json"},
      paramLabel = "FILE",
      description = "Writes the results as JSON.")
  Path json;

  @Option(
      names = {"--html"},
      paramLabel = "FILE",
      description = "Writes a page with plots of time and bandwidth by size.")
  Path html;

  @Option(
      names = {"--explain"},
      description = "Shows the planner's table of algorithms for each size.")
  boolean explain;

  @Option(
      names = {"--blocks"},
      description = "Adds the blocks (CTAs) of each operation to the table. For GPUs.")
  boolean blocks;

  @Option(
      names = {"--overlap"},
      description =
          "Runs a computing kernel beside the operations, and shows how much they slow each"
              + " other down, with --compare libnccl also for libnccl. For GPUs.")
  boolean overlap;

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      description = "Show this help message and exit.")
  boolean help;

  // Without -V, which is an option of nccl-tests.
  @Option(
      names = {"--version"},
      versionHelp = true,
      description = "Print version information and exit.")
  boolean version;
}
