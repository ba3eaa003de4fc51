package org.nccl4j.it.perf.peer;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.it.run.Placement;

/** The command line that starts a program's ranks with Open MPI, each where ours is. */
final class MpiCommand {
  /** The file that {@link #of} may make in the folder. */
  static final String AGENT = "agent";

  private MpiCommand() {}

  /**
   * The command.
   *
   * @param placement where; on other hosts they talk over TCP alone
   * @param folder that the other hosts have too
   * @throws IOException if what starts Open MPI's daemons on other hosts cannot be written
   */
  static List<String> of(int nRanks, Placement placement, Path folder, List<String> program)
      throws IOException {
    List<String> command = new ArrayList<>(List.of("mpirun", "-n", Integer.toString(nRanks)));
    if ("root".equals(System.getProperty("user.name"))) {
      command.add("--allow-run-as-root");
    }
    if (!placement.isHere()) {
      command.addAll(onHosts(nRanks, placement, folder));
    } else if (nRanks > Runtime.getRuntime().availableProcessors()) {
      command.add("--oversubscribe");
    }
    command.addAll(program);
    return command;
  }

  private static List<String> onHosts(int nRanks, Placement placement, Path folder)
      throws IOException {
    Map<String, Integer> slots = new LinkedHashMap<>();
    for (int rank = 0; rank < nRanks; rank++) {
      slots.merge(placement.host(rank, nRanks), 1, Integer::sum);
    }
    List<String> hosts = new ArrayList<>();
    slots.forEach((host, ranks) -> hosts.add(host + ":" + ranks));
    List<String> options = new ArrayList<>(List.of("--host", String.join(",", hosts)));
    // Hosts that are network namespaces have the same cores, and no daemon knows which are free:
    // our program binds itself.
    options.addAll(List.of("--bind-to", "none"));
    option(options, "plm_rsh_agent", agent(placement, folder).toString());
    option(options, "plm_rsh_no_tree_spawn", "1");
    option(options, "orte_tmpdir_base", folder.toString());
    option(options, "pml", "ob1");
    option(options, "btl", "tcp,self");
    return options;
  }

  private static void option(List<String> options, String name, String value) {
    options.addAll(List.of("--mca", name, value));
  }

  /** Writes the program that Open MPI calls like ssh: a host, then words for a shell there. */
  private static Path agent(Placement placement, Path folder) throws IOException {
    List<String> words = new ArrayList<>();
    for (String word : placement.launcher()) {
      words.add(word.replace("{host}", "$host"));
    }
    String script =
        """
        #!/bin/sh
        host=$1
        shift
        printf '%%s\\n' "$*" | %s sh -s
        """
            .formatted(String.join(" ", words));
    Path agent = Files.writeString(folder.resolve(AGENT), script);
    return Files.setPosixFilePermissions(agent, PosixFilePermissions.fromString("rwx------"));
  }
}
