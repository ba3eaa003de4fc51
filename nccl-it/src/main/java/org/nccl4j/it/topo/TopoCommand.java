package org.nccl4j.it.topo;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code topo}: the machine as a graph, and the channels that are found in it. */
@Command(
    name = "topo",
    mixinStandardHelpOptions = true,
    description = "The machine's topology, and the channels found in it.",
    subcommands = {
      DetectCommand.class,
      ShowCommand.class,
      PathsCommand.class,
      GraphCommand.class,
      ExplainCommand.class,
      SimulateCommand.class
    })
public final class TopoCommand implements Runnable {
  @Spec private CommandSpec spec;

  /** Called by picocli. */
  public TopoCommand() {}

  @Override
  public void run() {
    throw new ParameterException(
        spec.commandLine(),
        "no command is given: use detect, show, paths, graph, explain or simulate");
  }
}
