package org.nccl4j.it.perf.rank;

import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The command that starts another process of this program. */
public final class JavaCommand {
  private static final String MODULE = "org.nccl4j.it";
  private static final String MAIN = "org.nccl4j.it.cli.Main";

  private JavaCommand() {}

  /**
   * The command line: this process's Java, its options and modules, or its class path alone where
   * it runs on that.
   *
   * @param arguments of the program
   */
  public static List<String> of(String... arguments) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    for (String option : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
      if (!option.startsWith("-agentlib:") && !option.startsWith("-Djdk.module.main")) {
        command.add(option);
      }
    }
    String classPath = System.getProperty("java.class.path", "");
    if (!classPath.isEmpty()) {
      command.add("-cp");
      command.add(classPath);
    }
    if (JavaCommand.class.getModule().isNamed()) {
      command.add("-m");
      command.add(MODULE + "/" + MAIN);
    } else {
      command.add(MAIN);
    }
    command.addAll(List.of(arguments));
    return command;
  }
}
