package org.nccl4j.it.run;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Starts a program once for each rank. */
@Command(
    name = "run",
    description =
        "Starts PROGRAM once for each rank, with NCCL4J_RANK, NCCL4J_NRANKS, NCCL4J_LOCAL_RANK"
            + " and NCCL4J_UNIQUE_ID set, and torchrun's RANK, WORLD_SIZE, LOCAL_RANK,"
            + " MASTER_ADDR and MASTER_PORT. Each line of output begins with its rank. Ranks have"
            + " no input (/dev/null). When a"
            + " rank fails, the others are ended, and the command exits with its status.",
    mixinStandardHelpOptions = true,
    sortOptions = false)
public final class RunCommand implements Callable<Integer> {
  private static final int MOST_RANKS = 1024;

  @Spec private CommandSpec spec;

  @Option(
      names = {"-n", "--ranks"},
      paramLabel = "N",
      required = true,
      description = "How many ranks.")
  private int ranks;

  @Option(
      names = {"--hosts"},
      paramLabel = "A,B",
      description = "Hosts for the ranks, filled evenly and in this order; default: this host.")
  private List<String> hosts = new ArrayList<>();

  @Option(
      names = {"--launcher"},
      paramLabel = "COMMAND",
      defaultValue = Placement.SSH,
      description =
          "With --hosts: the command that runs another one on a host; {host} is replaced by its"
              + " name (default: ${DEFAULT-VALUE}).")
  private String launcher;

  @Parameters(
      arity = "1..*",
      paramLabel = "PROGRAM",
      description = "The program and its arguments. All options of this command come before it.")
  private List<String> program = new ArrayList<>();

  /** For picocli. */
  public RunCommand() {}

  @Override
  public Integer call() {
    if (ranks < 1 || ranks > MOST_RANKS) {
      throw new ParameterException(
          spec.commandLine(),
          "-n %d is out of range: use a number from 1 to %d".formatted(ranks, MOST_RANKS));
    }
    if (!launcher.equals(Placement.SSH) && hosts.isEmpty()) {
      throw new ParameterException(
          spec.commandLine(), "--launcher must be used with --hosts: it starts ranks there");
    }
    Placement placement = Placement.of(hosts, launcher);
    return new LocalLaunch(
            LocalLaunch.GRACE,
            ranks,
            placement,
            program,
            spec.commandLine().getOut(),
            spec.commandLine().getErr())
        .run();
  }
}
