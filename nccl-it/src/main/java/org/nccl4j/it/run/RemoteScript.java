package org.nccl4j.it.run;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * The input of a shell on another host, which runs a rank there. It comes on the shell's input for
 * two reasons: the variables hold the communicator's secret, which a command line would show to
 * everybody, and ssh joins words that a shell then splits again. The input stays open as long as
 * the rank is needed. When it ends, because this process has ended or the connection is cut, the
 * rank is ended too.
 */
final class RemoteScript {
  private RemoteScript() {}

  /** The script of a program with some more variables. */
  static String of(Map<String, String> variables, List<String> program) {
    String exports =
        variables.entrySet().stream()
            .map(each -> "export %s=%s".formatted(each.getKey(), quoted(each.getValue())))
            .collect(Collectors.joining("\n"));
    String words = program.stream().map(RemoteScript::quoted).collect(Collectors.joining(" "));
    // One compound command: the shell has read all of it before anything else reads its input.
    return """
    %s
    exec 3<&0
    {
      %s < /dev/null 3<&- &
      rank=$!
      trap 'kill $rank 2> /dev/null' TERM INT HUP
      { cat <&3; kill -0 $$ && kill $rank; } > /dev/null 2>&1 &
      while :; do
        wait $rank
        status=$?
        kill -0 $rank 2> /dev/null || exit $status
      done
    }
    """
        .formatted(exports, words);
  }

  private static String quoted(String word) {
    return "'" + word.replace("'", "'\\''") + "'";
  }
}
