package org.nccl4j.it.run;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;

/**
 * The ids of a job that a command gets by {@code --job}. An id has the job's secret, and all users
 * of a host can read the command lines of its processes: so {@code -} reads ids from the input.
 */
public final class JobIds {
  private JobIds() {}

  /**
   * The ids that were given.
   *
   * @throws InvalidArgumentException if one should come from the input, and none is there
   */
  public static List<String> of(List<String> given) {
    List<String> ids = new ArrayList<>();
    for (String id : given) {
      if (id.equals("-")) {
        ids.addAll(ofInput());
      } else {
        ids.add(id);
      }
    }
    return ids;
  }

  private static List<String> ofInput() {
    String why = "no line";
    try {
      List<String> lines =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))
              .lines()
              .map(String::strip)
              .filter(line -> !line.isEmpty())
              .toList();
      if (!lines.isEmpty()) {
        return lines;
      }
    } catch (UncheckedIOException e) {
      why = IoErrorText.of(e.getCause());
    }
    throw new InvalidArgumentException(
        ErrorId.OPTION,
        "--job -: the standard input has no id: " + why,
        "pipe the unique id's text into the command, or pass it as --job ID");
  }
}
