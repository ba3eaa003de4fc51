package org.nccl4j.it.run;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * The input of a shell on another host, which runs a rank there. It comes on the shell's input for
 * two reasons: the variables hold the communicator's secret, which a command line would show to
 * everybody, and ssh joins words that a shell then splits again. The input stays open as long as
 * the rank is needed. When it ends, because this process has ended or the connection is cut, the
 * rank is ended too, with what it has started: the processes of its group, if the host has setsid,
 * and those that have its variables. They have 5 seconds before they are killed.
 */
final class RemoteScript {
  /** Together the variables of one rank of one run. */
  private static final String JOB = "NCCL4J_UNIQUE_ID";

  private static final String RANK = "NCCL4J_RANK";

  private RemoteScript() {}

  /** The script of a program with some more variables. */
  static String of(Map<String, String> variables, List<String> program) {
    String exports =
        variables.entrySet().stream()
            .map(each -> "export %s=%s".formatted(each.getKey(), quoted(each.getValue())))
            .collect(Collectors.joining("; "));
    String words = words(program);
    // Only the rank exports the variables: the shell's other commands are not to be found by them.
    // In a function: bash prints the command that a signal has ended, and the secret is none of it.
    // One compound command: the shell has read all of it before anything else reads its input.
    return """
    exec 3<&0
    {
      job=%s
      number=%s
      session=$(command -v setsid)
      run() { %s; exec $session %s; }
      run < /dev/null 3<&- &
      rank=$!
      with() { printf '%%s' "$1" | grep -lzsxFf - $2; }
      started() {
        found=$(with "$job" '/proc/[0-9]*/environ')
        [ -z "$found" ] || with "$number" "$found" | cut -d / -f 3
      }
      end() {
        kill -0 $$ && kill "-$1" $rank
        kill "-$1" -$rank $(started)
      }
      trap 'end TERM 2> /dev/null' TERM INT HUP
      {
        trap '' TERM INT HUP
        cat <&3
        kill -0 $$ || exit
        end TERM
        for second in 1 2 3 4 5; do
          sleep 1
          kill -0 -$rank || kill -0 $$ || [ -n "$(started)" ] || exit
        done
        end KILL
      } > /dev/null 2>&1 &
      while :; do
        wait $rank
        status=$?
        kill -0 $rank 2> /dev/null || exit $status
      done
    }
    """
        .formatted(mark(variables, JOB), mark(variables, RANK), exports, words);
  }

  /** The script of a program that becomes the shell, and reads the rest of its input. */
  static String of(List<String> program) {
    return "exec " + words(program) + "\n";
  }

  private static String words(List<String> program) {
    return program.stream().map(RemoteScript::quoted).collect(Collectors.joining(" "));
  }

  private static String mark(Map<String, String> variables, String name) {
    return quoted(name + "=" + variables.get(name));
  }

  private static String quoted(String word) {
    return "'" + word.replace("'", "'\\''") + "'";
  }
}
