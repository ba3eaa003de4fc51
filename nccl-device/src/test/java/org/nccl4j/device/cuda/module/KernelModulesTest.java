package org.nccl4j.device.cuda.module;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.NativeBuild;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.LaunchOptions;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Code is loaded while no kernel waits for another rank, where that can be had: the driver may load
 * only when the GPU is idle, and would hold up the rank for which that kernel waits.
 */
class KernelModulesTest extends AgainstFakeCuda {
  private static final Set<DataType> FLOAT = EnumSet.of(DataType.FLOAT32);

  @BeforeEach
  void assumeKernels() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
  }

  private KernelModules modules() {
    return new KernelModules(CudaDevices.probe().device(0).gpu());
  }

  private void everyReduction(KernelModules modules, DataType type) {
    for (Algorithm algorithm :
        EnumSet.of(Algorithm.RING, Algorithm.TREE, Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)) {
      for (Protocol protocol : Protocol.values()) {
        modules.collective(Operation.ALL_REDUCE, type, algorithm, protocol);
      }
    }
  }

  private void everyCopy(KernelModules modules) {
    for (Protocol protocol : Protocol.values()) {
      modules.collective(Operation.ALL_GATHER, DataType.INT8, Algorithm.RING, protocol);
      modules.collective(Operation.ALL_GATHER, DataType.INT8, Algorithm.ONE_SHOT, protocol);
    }
    for (MessageKernel kernel : MessageKernel.values()) {
      modules.p2p(kernel);
    }
    modules.copies(false);
    modules.copies(true);
  }

  @Test
  void anOtherWayOfATypeLoadsNothingBesideAKernelOfTheFirst() {
    KernelModules modules = modules();
    modules.collective(Operation.ALL_REDUCE, DataType.FLOAT32, Algorithm.RING, Protocol.SIMPLE);
    modules.p2p(MessageKernel.ANY);
    modules.direct(true, DataType.FLOAT32, "nccl4j_direct_ll");
    fake.fakeSpin(1);
    everyReduction(modules, DataType.FLOAT32);
    everyCopy(modules);
    modules.direct(true, DataType.FLOAT32, "nccl4j_direct_beside");
    assertEquals(0, fake.fakeSpin(0));
  }

  @Test
  void aFamilyThatNoOperationUsedIsLoadedWhenOneDoes() {
    KernelModules modules = modules();
    modules.p2p(MessageKernel.ANY);
    fake.fakeSpin(1);
    modules.collective(Operation.ALL_REDUCE, DataType.FLOAT32, Algorithm.RING, Protocol.SIMPLE);
    assertTrue(fake.fakeSpin(0) > 0);
  }

  @ParameterizedTest
  @EnumSource
  void whatIsPreloadedLoadsNothingBesideAKernel(DataType type) {
    KernelModules modules = modules();
    modules.preload(EnumSet.allOf(DataType.class), null);
    fake.fakeSpin(1);
    everyReduction(modules, type);
    everyCopy(modules);
    for (String name : KernelFamily.directReductions(type).kernels()) {
      modules.direct(true, type, name);
    }
    for (String name : KernelFamily.directCopies().kernels()) {
      modules.direct(false, null, name);
    }
    modules.ragged();
    if (QuantisedWork.Parts.hasType(type)) {
      KernelFamily.quantised(type).kernels().forEach(name -> modules.quantised(type, name));
      KernelFamily.experts(type).kernels().forEach(name -> modules.experts(type, name));
    }
    assertEquals(0, fake.fakeSpin(0));
  }

  @Test
  void onlyTheTypesThatWereNamedArePreloaded() {
    KernelModules modules = modules();
    modules.preload(FLOAT, null);
    fake.fakeSpin(1);
    everyReduction(modules, DataType.FLOAT32);
    assertEquals(0, fake.fakeSpin(1));
    everyReduction(modules, DataType.FLOAT64);
    assertTrue(fake.fakeSpin(0) > 0);
  }

  /** A kernel that waits runs from the first launch on; the second communicator comes then. */
  @Test
  void aCommunicatorPreloadsAtCreation() {
    NvlsLayout layout = new NvlsLayout(2, 2, 4096);
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3), (ConnectionLayout) null, layout)) {
      CudaDevice device = fresh(1);
      LaunchOptions options = new LaunchOptions(0, false, false, FLOAT);
      KernelCommunicator communicator =
          device.createKernelCommunicator(ranks.spec.withLaunching(options));
      String record = fake.fakeRecord();
      assertTrue(record.contains("cuModuleGetFunction(nccl4j_p2p)"));
      assertTrue(record.contains("cuModuleGetFunction(nccl4j_nvls_window_emulated)"));
      assertFalse(record.contains("_driver"));
      fake.fakeSpin(1);
      everyReduction(kernels(device), DataType.FLOAT32);
      everyCopy(kernels(device));
      kernels(device).nvls(true, DataType.FLOAT32, "nccl4j_nvls", true);
      assertEquals(0, fake.fakeSpin(0));
      communicator.close();
    }
  }

  /** It waits for no other rank. */
  @Test
  void aCommunicatorOfOneRankPreloadsNothing() {
    try (GpuRanks ranks = new GpuRanks(1, Duration.ofSeconds(3), (ConnectionLayout) null, null)) {
      LaunchOptions options = new LaunchOptions(0, false, false, FLOAT);
      fake.fakeReset();
      fresh(1).createKernelCommunicator(ranks.spec.withLaunching(options)).close();
      assertFalse(fake.fakeRecord().contains("cuModuleLoadData"));
    }
  }

  /** The names that the sources declare, those of rows of the table of algorithms among them. */
  @Test
  void familiesNameEveryKernelOfTheSources() throws IOException {
    Set<String> declared = new TreeSet<>();
    Pattern kernel = Pattern.compile("(?:^ *|__global__ void )(nccl4j_[a-z0-9_]+)[(,]");
    String[] sources = {"family", "direct", "nvls", "nvls_tree", "quantise", "ragged"};
    for (String source : sources) {
      String text = Files.readString(NativeBuild.source("src/main/cuda/" + source + ".cu"));
      for (DataType type : text.contains("##FAMILY(") ? DataType.values() : new DataType[0]) {
        text += "\n" + text.replace("##FAMILY(", type.label() + "("); // a macro's row of types.h
      }
      Matcher found = Pattern.compile(kernel.pattern(), Pattern.MULTILINE).matcher(text);
      while (found.find()) {
        declared.add(found.group(1));
      }
    }
    assertTrue(KernelFamily.copies().kernels().containsAll(ofRows("ALL")));
    assertTrue(Collections.disjoint(KernelFamily.copies().kernels(), ofRows("REDUCING")));
    declared.addAll(ofRows("ALL"));
    declared.addAll(ofRows("REDUCING"));
    Set<String> named = new TreeSet<>();
    Stream.of(
            KernelFamily.copies(),
            KernelFamily.reductions(DataType.FLOAT32),
            KernelFamily.directCopies(),
            KernelFamily.directReductions(DataType.FLOAT32),
            KernelFamily.quantised(DataType.FLOAT32),
            KernelFamily.ragged(),
            KernelFamily.nvlsCopies(false),
            KernelFamily.nvlsCopies(true),
            KernelFamily.nvlsTree(DataType.FLOAT32, false),
            KernelFamily.nvlsTree(DataType.FLOAT32, true))
        .forEach(family -> named.addAll(family.kernels()));
    assertEquals(declared, named);
  }

  /** The kernels of the algorithms whose rows name these families. */
  private static Set<String> ofRows(String families) throws IOException {
    Set<String> kernels = new TreeSet<>();
    Pattern row =
        Pattern.compile(
            "// Row \\d+ of algorithms.h: \\w+, (\\w+), \\w+, \\w+, " + families + "\\s");
    try (Stream<Path> headers = Files.list(NativeBuild.source("src/main/cuda"))) {
      for (Path header : headers.toList()) {
        Matcher found = row.matcher(Files.readString(header));
        while (found.find()) {
          kernels.add("nccl4j_ll_" + found.group(1));
          kernels.add("nccl4j_ll128_" + found.group(1));
        }
      }
    }
    assertFalse(kernels.isEmpty(), families);
    return kernels;
  }
}
