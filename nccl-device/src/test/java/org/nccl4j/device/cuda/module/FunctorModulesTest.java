package org.nccl4j.device.cuda.module;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.NativeBuild;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.driver.Nvrtc;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.cuda.plan.ReductionArguments;
import org.nccl4j.device.kernel.KernelCommunicator.LocalReduction;

/** Users' functors, compiled by a fake NVRTC and loaded by the recording driver, and by nvcc. */
class FunctorModulesTest extends AgainstFakeCuda {
  private static final String SOURCE =
      """
      struct MaxAbs {
        __device__ float operator()(float a, float b) const { return fabsf(a) < fabsf(b) ? b : a; }
      };
      """;

  private static final String ARGMAX =
      """
      namespace mine {
      struct Pair { float value; int index; int rank; };
      struct ArgMax {
        __device__ Pair operator()(const Pair& a, const Pair& b) { return a.value < b.value ? b : a; }
      };
      }
      """;

  /** An image that the fake driver records. */
  private static final byte[] IMAGE = "functor image".getBytes(StandardCharsets.US_ASCII);

  @TempDir Path folder;
  private GpuRanks ranks;

  @BeforeEach
  void makeRanks() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(2, Duration.ofSeconds(3));
    fake.fakeReset();
  }

  @AfterEach
  void closeRanks() {
    if (ranks != null) {
      ranks.close();
    }
  }

  private String compiler() {
    String library = folder.resolve("libnvrtc.so.12").toString();
    NativeBuild.gcc(
        "-shared",
        "-fPIC",
        "-Wall",
        "-Werror",
        "-Wno-stringop-truncation",
        "-o",
        library,
        NativeBuild.source("src/test/c/fakenvrtc.c").toString());
    return library;
  }

  private static LocalReduction work(CudaFunctor functor, DataType type) {
    ReductionOperator operator = ReductionOperator.function("mine", type).onCuda(functor).build();
    return new LocalReduction(operator, 2, 4096, 1000, type, 0);
  }

  private static LocalReduction structs(CudaFunctor functor, int bytes) {
    ReductionOperator operator =
        ReductionOperator.functionOfStructs("mine", bytes).onCuda(functor).build();
    return new LocalReduction(operator, 2, 16384, 1000, DataType.UINT8, 0);
  }

  private long load(LocalReduction work, String nvrtc) {
    return new FunctorModules(ranks.devices.get(0).gpu()).function(work, nvrtc);
  }

  @Test
  void aSourceIsCompiledOnceForAllGpusOfAKind() {
    String nvrtc = compiler();
    // The image of one source is kept, so that each test has its own.
    CudaFunctor functor =
        CudaFunctor.ofSource("MaxAbs", SOURCE + "// once").withCompilerOptions("-DX=1");
    FunctorModules first = new FunctorModules(ranks.devices.get(0).gpu());
    FunctorModules second = new FunctorModules(ranks.devices.get(1).gpu());
    long loaded = first.function(work(functor, DataType.FLOAT16), nvrtc);
    CudaFunctor same =
        CudaFunctor.ofSource("MaxAbs", SOURCE + "// once").withCompilerOptions("-DX=1");
    assertEquals(functor, same);
    assertEquals(loaded, first.function(work(same, DataType.FLOAT16), nvrtc));
    second.function(work(functor, DataType.FLOAT16), nvrtc);
    String image =
        "cuModuleLoadData(functor --gpu-architecture=sm_90 --std=c++17 -DX=1"
            + " with nccl4j_reduction.cuh"
            + " static_assert(sizeof(nccl4j_reduction::element_half) == 2,"
            + " \"the size of an element is not that of the operator\");"
            + " NCCL4J_REDUCTION(MaxAbs, nccl4j_reduction::element_half))";
    assertEquals(2, fake.fakeRecord().lines().filter(image::equals).count(), fake.fakeRecord());
    assertEquals(2, calls("cuModuleGetFunction(nccl4j_reduction_2)"), fake.fakeRecord());
    first.function(work(functor, DataType.BFLOAT16), nvrtc);
    assertEquals(3, calls("cuModuleGetFunction(nccl4j_reduction_2)"), fake.fakeRecord());
  }

  private long calls(String line) {
    return fake.fakeRecord().lines().filter(line::equals).count();
  }

  @Test
  void anErrorHasTheLogWithTheUsersLines() {
    CudaFunctor wrong = CudaFunctor.ofSource("mine::Wrong", "// one\n// two\n#error\n");
    InvalidUsageException error =
        assertThrows(
            InvalidUsageException.class, () -> load(work(wrong, DataType.FLOAT32), compiler()));
    String problem = error.problem();
    assertTrue(problem.contains("CUDA functor mine::Wrong does not compile"), problem);
    assertTrue(problem.contains("mine.Wrong.cu(3): error: #error"), problem);
    assertTrue(problem.contains("NVRTC 12.9"), problem);
    assertTrue(error.remedy().contains("correct the source"), error.remedy());
    CudaFunctor option =
        CudaFunctor.ofSource("MaxAbs", SOURCE).withCompilerOptions("--no-such-option");
    error =
        assertThrows(
            InvalidUsageException.class, () -> load(work(option, DataType.FLOAT32), compiler()));
    assertTrue(error.problem().contains("unrecognized option --no-such-option"), error.problem());
    assertFalse(fake.fakeRecord().contains("cuModuleLoadData"), fake.fakeRecord());
  }

  /** The driver compiles PTX for a GPU that NVRTC does not know. */
  @Test
  void aGpuThatIsNewerThanTheCompilerGetsPtx() {
    Nvrtc.Program program =
        FunctorModules.program(CudaFunctor.ofSource("MaxAbs", SOURCE), DataType.FLOAT32, 4);
    Nvrtc nvrtc = Nvrtc.find(compiler());
    String image = new String(nvrtc.compile(program, 103), StandardCharsets.UTF_8);
    assertTrue(image.startsWith("functor --gpu-architecture=compute_90 "), image);
    InvalidUsageException error =
        assertThrows(InvalidUsageException.class, () -> nvrtc.compile(program, 70));
    assertTrue(error.problem().contains("from 75 on, and the GPU's is 70"), error.problem());
  }

  @Test
  void withoutTheCompilerTheErrorNamesTheWaysOut() {
    for (String setting : new String[] {folder.resolve("none.so").toString(), folder.toString()}) {
      CudaFunctor functor = CudaFunctor.ofSource("MaxAbs", SOURCE + "// " + setting);
      InvalidUsageException error =
          assertThrows(
              InvalidUsageException.class, () -> load(work(functor, DataType.FLOAT32), setting));
      assertTrue(error.problem().contains(setting), error.problem());
      for (String way : new String[] {"NCCL4J_NVRTC", "nvidia-cuda-nvrtc", "ofImage"}) {
        assertTrue(error.remedy().contains(way), error.remedy());
      }
    }
  }

  @Test
  void anImageNeedsNoCompiler() {
    CudaFunctor functor = CudaFunctor.ofImage("Mine", IMAGE);
    String none = folder.resolve("none.so").toString();
    load(work(functor, DataType.FLOAT32), none);
    assertEquals(1, calls("cuModuleLoadData(functor image)"), fake.fakeRecord());
    fake.fakeVariable(12);
    load(structs(functor, 12), none);
    InvalidArgumentException size =
        assertThrows(InvalidArgumentException.class, () -> load(structs(functor, 16), none));
    assertTrue(size.problem().contains("for elements of 12 bytes"), size.problem());
    assertEquals(1, calls("cuModuleUnload()"), fake.fakeRecord());
    fake.fakeFail("cuModuleGetFunction", 500);
    InvalidUsageException error =
        assertThrows(InvalidUsageException.class, () -> load(structs(functor, 12), none));
    assertTrue(error.problem().contains("cannot load the CUDA functor Mine"), error.problem());
    assertTrue(error.remedy().contains("nvcc -cubin -arch=sm_90"), error.remedy());
    assertEquals(2, calls("cuModuleUnload()"), fake.fakeRecord());
  }

  /** They are kept by their code, not by their names. */
  @Test
  void functorsOfOneNameAreLoadedApart() {
    String nvrtc = compiler();
    FunctorModules modules = new FunctorModules(ranks.devices.get(0).gpu());
    byte[] other = "functor image, another".getBytes(StandardCharsets.US_ASCII);
    for (int time = 0; time < 2; time++) {
      modules.function(work(CudaFunctor.ofImage("Same", IMAGE), DataType.FLOAT32), nvrtc);
      modules.function(work(CudaFunctor.ofImage("Same", other), DataType.FLOAT32), nvrtc);
      for (String code : new String[] {"// this", "// that"}) {
        CudaFunctor functor = CudaFunctor.ofSource("Same", SOURCE + code);
        modules.function(work(functor, DataType.FLOAT32), nvrtc);
      }
    }
    assertEquals(1, calls("cuModuleLoadData(functor image)"), fake.fakeRecord());
    assertEquals(1, calls("cuModuleLoadData(functor image, another)"), fake.fakeRecord());
    assertEquals(4, calls("cuModuleGetFunction(nccl4j_reduction_2)"), fake.fakeRecord());
  }

  @Test
  void functionsThatTheGpuDoesNotHave() {
    ReductionOperator host =
        ReductionOperator.function("host's", DataType.FLOAT32)
            .onHost((a, b, target, count, type) -> {})
            .build();
    InvalidUsageException error =
        assertThrows(
            InvalidUsageException.class,
            () -> load(new LocalReduction(host, 2, 16, 4, DataType.FLOAT32, 0), ""));
    assertTrue(error.problem().contains("'host's' has no function for GPUs"), error.problem());
  }

  @Test
  void theKernelGetsTheCopiesAndBuffers() {
    ReductionOperator operator =
        ReductionOperator.function("mine", DataType.FLOAT32)
            .onCuda(CudaFunctor.ofImage("Mine", IMAGE))
            .build();
    try (DeviceMemory send = ranks.devices.get(1).allocate(3 * 8192);
        DeviceMemory recv = ranks.devices.get(1).allocate(8000)) {
      LocalReduction work = new LocalReduction(operator, 3, 8192, 2000, DataType.FLOAT32, 0);
      CudaKernelPlan plan = (CudaKernelPlan) ranks.communicators().get(1).prepare(work);
      assertEquals(2 * 8192 + 8000, plan.sendBytes());
      assertEquals(8000, plan.recvBytes());
      fake.fakeReset();
      ranks.communicators().get(1).launch(plan, send, recv, ranks.streams.get(1));
      assertTrue(fake.fakeRecord().contains("cuLaunchKernelEx(2,1,1,256,"), fake.fakeRecord());
      Offheap launched = new Offheap(ReductionArguments.SIZE);
      fake.fakeAllArguments(launched.address(), ReductionArguments.SIZE);
      Reference.reachabilityFence(plan);
      assertEquals(send.address(), launched.getLong(KernelLayout.SEND));
      assertEquals(recv.address(), launched.getLong(KernelLayout.RECV));
      assertEquals(8192, launched.getLong(ReductionArguments.STRIDE));
      assertEquals(2000, launched.getLong(ReductionArguments.COUNT));
      assertEquals(3, launched.getInt(ReductionArguments.COPIES));
      assertEquals(0, launched.getLong(ReductionArguments.COUNTED));
      LocalReduction nothing = new LocalReduction(operator, 3, 8192, 0, DataType.FLOAT32, 0);
      assertTrue(((CudaKernelPlan) ranks.communicators().get(1).prepare(nothing)).isEmpty());
    }
  }

  /** Programs for NVRTC compile, also for the oldest GPUs. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void programsCompileByNvcc(DataType type) throws Exception {
    nvcc(FunctorModules.program(CudaFunctor.ofSource("MaxAbs", SOURCE), type, type.bytes()), 90);
    if (!type.isFloat8()) {
      nvcc(FunctorModules.program(CudaFunctor.ofSource("MaxAbs", SOURCE), type, type.bytes()), 75);
    }
  }

  @Test
  void programsOfStructsCompileByNvcc() throws Exception {
    nvcc(FunctorModules.program(CudaFunctor.ofSource("mine::ArgMax", ARGMAX), null, 12), 90);
  }

  private void nvcc(Nvrtc.Program program, int architecture) throws Exception {
    for (Map.Entry<String, String> header : program.headers().entrySet()) {
      Files.writeString(folder.resolve(header.getKey()), header.getValue());
    }
    Path source = folder.resolve("program.cu");
    Files.writeString(source, program.source());
    NativeBuild.nvcc(
        "-cubin",
        "-arch=sm_" + architecture,
        "-Werror=all-warnings",
        "-I" + folder,
        "-o",
        folder.resolve("program.cubin").toString(),
        source.toString());
  }
}
