package org.nccl4j.it.run;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

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

  /** The remedy where the launcher has not reached a host. */
  public static final String UNREACHED_REMEDY =
      "see that this command works without a password and other input, or name another command"
          + " with --launcher";

  /** The status of ssh where it is ssh that failed, see ssh(1). */
  private static final int UNREACHED = 255;

  /** Copies the lists. */
  public Placement {
    hosts = List.copyOf(hosts);
    launcher = List.copyOf(launcher);
  }

  /**
   * Returns the placement that the options give.
   *
   * @param given lists of names with commas between them; none for this machine
   * @param launcher words with blanks between them
   * @throws InvalidArgumentException if a name is empty
   */
  public static Placement of(List<String> given, String launcher) {
    List<String> hosts =
        given.stream()
            .flatMap(list -> Stream.of(list.split(",", -1))) // split drops empty names at the end
            .map(String::strip)
            .toList();
    if (hosts.stream().anyMatch(String::isEmpty)) {
      throw new InvalidArgumentException(
          ErrorId.OPTION,
          "--hosts %s has an empty name".formatted(String.join(",", given)),
          "name the hosts with commas between them, or leave --hosts out for this host");
    }
    boolean here = hosts.isEmpty() || hosts.equals(List.of("localhost"));
    return here ? HERE : new Placement(hosts, List.of(launcher.trim().split("\\s+")));
  }

  /** True if all ranks run on this machine, started without a launcher. */
  public boolean isHere() {
    return hosts.isEmpty();
  }

  /** True if it is the launcher that failed, and not the program that it started. */
  public boolean isUnreached(int status) {
    return !isHere() && status == UNREACHED;
  }

  /** A clause about a rank whose host the launcher has not reached, or has lost. */
  public String unreached(int rank, int nRanks, int status) {
    return "'%s' cannot reach %s, or lost it (exit status %d)"
        .formatted(String.join(" ", command(rank, nRanks, List.of())), host(rank, nRanks), status);
  }

  /** The host of a rank: ranks are spread evenly, neighbours together. */
  public String host(int rank, int nRanks) {
    return hosts.get((int) ((long) rank * hosts.size() / nRanks));
  }

  /** The address of a rank's host for other hosts: its name without a user's, as ssh takes one. */
  public String address(int rank, int nRanks) {
    String host = host(rank, nRanks);
    return host.substring(host.lastIndexOf('@') + 1);
  }

  /** Returns a rank's index among the ranks of its host. */
  public int localRank(int rank, int nRanks) {
    int local = 0;
    for (int other = 0; other < rank && !isHere(); other++) {
      local += host(other, nRanks).equals(host(rank, nRanks)) ? 1 : 0;
    }
    return isHere() ? rank : local;
  }

  /**
   * Starts a program as a rank, with what it inherits there. On another host a shell reads the
   * program's words from the input, since ssh joins words that a shell then splits again. The rest
   * of the input is the program's; write it once the program has begun, which its output shows:
   * until then the shell may read ahead.
   *
   * @throws IOException if the launcher cannot be started
   */
  public Process start(int rank, int nRanks, List<String> program) throws IOException {
    if (isHere()) {
      return new ProcessBuilder(program).start();
    }
    Process process = new ProcessBuilder(shell(rank, nRanks)).start();
    try {
      OutputStream input = process.getOutputStream();
      input.write(RemoteScript.of(program).getBytes(StandardCharsets.UTF_8));
      input.flush();
    } catch (IOException e) {
      return process; // it has ended, and its status and output tell the reason
    }
    return process;
  }

  private List<String> command(int rank, int nRanks, List<String> program) {
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
