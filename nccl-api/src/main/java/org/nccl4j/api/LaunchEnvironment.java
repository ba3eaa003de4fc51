package org.nccl4j.api;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.nccl4j.api.settings.Environment;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/**
 * The rank of this process, from the variables of its launcher: {@code nccl run}, torchrun, Open
 * MPI, Slurm or an indexed job of Kubernetes, in this order, because other launchers run inside the
 * last two. Kubernetes sets the rank of a pod; the pod's template must set the number of ranks
 * (NCCL4J_NRANKS).
 *
 * @param launcher the launcher that set the variables
 * @param rank the rank of this process
 * @param nRanks the number of ranks of all processes
 * @param localRank the number of this process among the processes of its machine
 * @param uniqueId the launcher's id for the first communicator; only {@code nccl run} creates one
 * @param meetingPoint host:port where rank 0 may listen, if the launcher names one
 */
public record LaunchEnvironment(
    String launcher,
    int rank,
    int nRanks,
    int localRank,
    Optional<UniqueId> uniqueId,
    Optional<String> meetingPoint) {
  private static final List<Names> LAUNCHERS =
      List.of(
          new Names("nccl run", "./nccl run", "NCCL4J_RANK", "NCCL4J_NRANKS", "NCCL4J_LOCAL_RANK"),
          new Names("torchrun", "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
          new Names(
              "Open MPI",
              "mpirun",
              "OMPI_COMM_WORLD_RANK",
              "OMPI_COMM_WORLD_SIZE",
              "OMPI_COMM_WORLD_LOCAL_RANK"),
          new Names("Slurm", "srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
          new Names(
              "Kubernetes",
              "an indexed job whose template sets NCCL4J_NRANKS",
              "JOB_COMPLETION_INDEX",
              "NCCL4J_NRANKS",
              "NCCL4J_LOCAL_RANK"));

  private record Names(
      String launcher, String starter, String rank, String nRanks, String localRank) {}

  /**
   * Reads the variables of a process.
   *
   * @param variables such as {@code System.getenv()}
   * @return empty if no launcher has set variables
   * @throws InvalidArgumentException naming the missing or invalid variable
   */
  public static Optional<LaunchEnvironment> of(Map<String, String> variables) {
    Arguments.notNull(variables, "variables of the process");
    Optional<LaunchEnvironment> found =
        LAUNCHERS.stream()
            .filter(names -> variables.containsKey(names.rank()))
            .findFirst()
            .map(names -> read(names, variables));
    if (found.isEmpty() && variables.containsKey("NCCL4J_NRANKS")) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL4J_NRANKS is set, but the rank of this process is not",
          "set NCCL4J_RANK, or make the Kubernetes job an indexed one (completionMode: Indexed)");
    }
    return found;
  }

  /**
   * The environment of this process, which a launcher must have started.
   *
   * @throws InvalidUsageException naming the variables to set, if none is set
   * @throws InvalidArgumentException as {@link #of} does
   */
  public static LaunchEnvironment required() {
    return required(Environment.variables());
  }

  static LaunchEnvironment required(Map<String, String> variables) {
    return of(variables)
        .orElseThrow(
            () ->
                new InvalidUsageException(
                    "the rank of this process is unknown: none of %s is set"
                        .formatted(
                            LAUNCHERS.stream().map(Names::rank).collect(Collectors.joining(", "))),
                    "start the program with ./nccl run -n N -- PROGRAM, torchrun, mpirun or srun,"
                        + " or set NCCL4J_RANK, NCCL4J_NRANKS and NCCL_COMM_ID for each rank"));
  }

  private static LaunchEnvironment read(Names names, Map<String, String> variables) {
    int nRanks = number(names, names.nRanks(), variables, 1, Integer.MAX_VALUE);
    int rank = number(names, names.rank(), variables, 0, nRanks - 1);
    int localRank =
        variables.containsKey(names.localRank())
            ? number(names, names.localRank(), variables, 0, nRanks - 1)
            : rank;
    String id = variables.get("NCCL4J_UNIQUE_ID");
    String host = variables.get("MASTER_ADDR");
    String port = variables.get("MASTER_PORT");
    return new LaunchEnvironment(
        names.launcher(),
        rank,
        nRanks,
        localRank,
        Optional.ofNullable(id).map(LaunchEnvironment::uniqueId),
        host == null || port == null ? Optional.empty() : Optional.of(host + ":" + port));
  }

  private static UniqueId uniqueId(String text) {
    try {
      return UniqueId.parse(text);
    } catch (InvalidArgumentException e) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL4J_UNIQUE_ID is \"%s\", which is not a unique id".formatted(text),
          "start the program with ./nccl run, which sets it, or set it to the result of"
              + " UniqueId.toString()",
          e);
    }
  }

  private static int number(
      Names names, String name, Map<String, String> variables, int least, int most) {
    String text = variables.get(name);
    if (text == null) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "%s is not set, though other variables of %s are".formatted(name, names.launcher()),
          "set %s, or start the program with %s, or unset %s"
              .formatted(name, names.starter(), names.rank()));
    }
    try {
      int value = Integer.parseInt(text.strip());
      if (value >= least && value <= most) {
        return value;
      }
    } catch (NumberFormatException e) {
      throw malformed(names, name, text, least, most);
    }
    throw malformed(names, name, text, least, most);
  }

  private static InvalidArgumentException malformed(
      Names names, String name, String text, int least, int most) {
    String range =
        most == Integer.MAX_VALUE ? "at least " + least : "from " + least + " to " + most;
    return new InvalidArgumentException(
        ErrorId.SETTING,
        "%s is \"%s\", not a number %s".formatted(name, text, range),
        "start the program with " + names.starter() + ", which sets it");
  }
}
