package org.nccl4j.it.cli;

import java.nio.file.Path;
import java.util.concurrent.Callable;
import org.nccl4j.device.cuda.DeviceHeaders;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code nccl device-headers DIR}. */
@Command(
    name = "device-headers",
    description = "Unpacks the CUDA headers for your own kernels.",
    mixinStandardHelpOptions = true)
final class DeviceHeadersCommand implements Callable<Integer> {
  @Spec private CommandSpec spec;

  @Parameters(paramLabel = "DIR", description = "Target directory; created if missing.")
  private Path directory;

  /** Called by picocli. */
  DeviceHeadersCommand() {}

  @Override
  public Integer call() {
    DeviceHeaders.unpack(directory)
        .forEach(file -> spec.commandLine().getOut().println(file.toString()));
    return 0;
  }
}
