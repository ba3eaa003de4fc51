package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.HostKernels;

/**
 * The deadline of kernels' waits (wait.cuh), compiled for the host with waits.cc: it bounds each
 * wait, and not all of a kernel's together. Needs nvcc's host compiler.
 */
@Timeout(600)
class KernelWaitTest {
  @TempDir Path folder;

  @Test
  void theDeadlineIsThatOfEachWait() throws Exception {
    HostKernels kernels = HostKernels.in(folder, "wait", "wait.cuh", "layout.h");
    kernels.compile("waits.cc", "waits", "-O1");
    assertEquals("", kernels.run("waits", List.of()));
  }
}
