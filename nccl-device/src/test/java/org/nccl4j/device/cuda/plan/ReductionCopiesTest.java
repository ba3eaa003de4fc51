package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.HostKernels;
import org.nccl4j.device.cuda.NativeBuild;

/** The kernel of users' functions (nccl4j_reduction.cuh), compiled for the host by copies.cc. */
class ReductionCopiesTest {
  @TempDir Path folder;

  /** A function gets infinities and NaNs of a copy as they were. */
  @Test
  void oneCopyKeepsItsBits() throws Exception {
    NativeBuild.gcc(
        "-x",
        "c++",
        "-std=c++17",
        "-I",
        NativeBuild.source("src/main/resources/org/nccl4j/device/cuda/include").toString(),
        "-o",
        folder.resolve("copies").toString(),
        NativeBuild.source("src/test/c/reduction/copies.cc").toString());
    assertEquals("18224", new HostKernels(folder).run("copies", List.of()));
  }
}
