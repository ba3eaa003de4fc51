package org.nccl4j.it.perf;

import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

/** Options of nccl-tests that {@code perf} does not have: each is refused with the reason. */
final class UnsupportedOptions {
  private static final String KERNELS = "nccl-tests has kernels of its own, and perf has none";

  private record Foreign(String shortName, String longName, String reason) {}

  private static final List<Foreign> ALL =
      List.of(
          new Foreign("-p", "--parallel_init", "ranks are always initialized in parallel"),
          new Foreign("-y", "--stream_null", "perf makes its streams itself"),
          new Foreign("-C", "--report_cputime", "perf does not report CPU time"),
          new Foreign("-S", "--report_timestamps", "perf does not report time stamps"),
          new Foreign("-J", "--output_file", "its JSON is different; ours is --json FILE"),
          new Foreign("-N", "--run_cycles", "run the command as often as you like"),
          new Foreign("-D", "--device_implementation", KERNELS),
          new Foreign("-V", "--device_cta_count", KERNELS),
          new Foreign("-M", "--memory", "perf does not report memory"),
          new Foreign("-u", "--unalign", "perf does not measure unaligned buffers"),
          new Foreign("-I", "--per_iter_timing", "perf times whole rounds, not single iterations"),
          new Foreign("-K", "--per_iter_skip", "perf times whole rounds, not single iterations"));

  private UnsupportedOptions() {}

  /** Makes a command recognize them. */
  static void addTo(CommandSpec command) {
    for (Foreign foreign : ALL) {
      command.addOption(
          OptionSpec.builder(foreign.shortName(), foreign.longName())
              .hidden(true)
              .arity("0..1")
              .fallbackValue("")
              .type(String.class)
              .build());
    }
  }

  /**
   * Refuses them.
   *
   * @throws InvalidUsageException for the first one that was given
   */
  static void refuse(CommandSpec command) {
    for (Foreign foreign : ALL) {
      if (command.findOption(foreign.shortName()).getValue() != null) {
        throw new InvalidUsageException(
            ErrorId.OPTIONS,
            "%s (%s) is an option of nccl-tests that perf does not have: %s"
                .formatted(foreign.shortName(), foreign.longName(), foreign.reason()),
            "leave it out");
      }
    }
  }
}
