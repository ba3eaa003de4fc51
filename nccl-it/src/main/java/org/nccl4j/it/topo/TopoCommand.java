package org.nccl4j.it.topo;

import picocli.CommandLine.Command;

/** {@code topo}: the machine as a graph, and the channels that are found in it. */
@Command(
    name = "topo",
    mixinStandardHelpOptions = true,
    description = "The machine as a graph, and the channels that are found in it.",
    subcommands = {
      DetectCommand.class,
      ShowCommand.class,
      PathsCommand.class,
      GraphCommand.class,
      ExplainCommand.class,
      SimulateCommand.class
    })
public final class TopoCommand {}
