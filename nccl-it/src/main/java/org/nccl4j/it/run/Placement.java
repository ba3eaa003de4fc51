package org.nccl4j.it.run;

import java.util.ArrayList;
import java.util.List;

/**
 * The machine of each rank, and the command that starts a program there.
 *
 * @param hosts where, in the order of the ranks; empty for this machine
 * @param launcher words of the command that starts another on a host, {host} standing for its name
 */
public record Placement(List<String> hosts, List<String> launcher) {
  /** All ranks on this machine. */
  public static final Placement HERE = new Placement(List.of(), List.of());

  /** Command that starts a command on another machine by default. */
  public static final String SSH = "ssh -o BatchMode=yes {host}";

  /** Copies the lists. */
  public Placement {
    hosts = List.copyOf(hosts);
    launcher = List.copyOf(launcher);
  }

  /**
   * Returns the placement that the options give.
   *
   * @param launcher words with blanks between them
   */
  public static Placement of(List<String> hosts, String launcher) {
    boolean here = hosts.isEmpty() || hosts.equals(List.of("localhost"));
    return here ? HERE : new Placement(hosts, List.of(launcher.trim().split("\\s+")));
  }

  /** True if all ranks run on this machine, started without a launcher. */
  public boolean isHere() {
    return hosts.isEmpty();
  }

  /** The host of a rank: ranks are spread evenly, neighbours together. */
  public String host(int rank, int nRanks) {
    return hosts.get((int) ((long) rank * hosts.size() / nRanks));
  }

  /** Returns a rank's index among the ranks of its host. */
  public int localRank(int rank, int nRanks) {
    int local = 0;
    for (int other = 0; other < rank && !isHere(); other++) {
      local += host(other, nRanks).equals(host(rank, nRanks)) ? 1 : 0;
    }
    return isHere() ? rank : local;
  }

  /** The command that starts a program as a rank, where the rank inherits this environment. */
  public List<String> command(int rank, int nRanks, List<String> program) {
    if (isHere()) {
      return program;
    }
    List<String> command = new ArrayList<>();
    for (String word : launcher) {
      command.add(word.replace("{host}", host(rank, nRanks)));
    }
    command.addAll(program);
    return command;
  }

  /** The command that starts a shell where a rank is, which reads what to do. */
  List<String> shell(int rank, int nRanks) {
    return command(rank, nRanks, List.of("sh", "-s"));
  }
}
