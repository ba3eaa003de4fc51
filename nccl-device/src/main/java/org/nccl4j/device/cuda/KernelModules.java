package org.nccl4j.device.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.Protocol;

/**
 * The kernels of one device, loaded when first asked for: a fatbin for each type of element, and
 * one for what only copies. Any thread may call.
 *
 * <p>The table from (collective, operator, type, algorithm, protocol) to a function is in the
 * names: the type and whether it reduces at all choose the module, algorithm and protocol the
 * function; collective and operator are arguments, since branching on them costs nothing beside a
 * flight over NVLink and a family of kernels for each would be forty times the code.
 */
final class KernelModules {
  private static final String COPY = "copy";
  private static final int MAX_THREADS_PER_BLOCK = 0; // CU_FUNC_ATTRIBUTE_...
  private static final int PTX_VERSION = 5; // CU_FUNC_ATTRIBUTE_...

  /** The compute capability from which on kernels are compiled with a wait; launch.cuh. */
  private static final int WAITS_FROM = 90;

  private final CudaDevice device;
  private final Map<String, Long> modules = new HashMap<>();
  private final Map<String, Long> functions = new HashMap<>();
  private final Set<Long> waiting = new HashSet<>();

  KernelModules(CudaDevice device) {
    this.device = device;
  }

  /** The kernel of a collective; loaded and ready to be launched. */
  long collective(Collective collective, DataType type, Algorithm algorithm, Protocol protocol) {
    boolean reduces = CollectivePlans.reduces(collective);
    if (reduces) {
      checkArithmetic(type);
    }
    return function(reduces ? type.label() : COPY, name(algorithm, protocol));
  }

  private void checkArithmetic(DataType type) {
    if (type.isFloat8() && device.computeCapability() < 90) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s has no float8 arithmetic".formatted(device),
          "use another type, or a GPU of compute capability 9.0 or newer");
    }
  }

  /**
   * A kernel of NVLS; loaded and ready to be launched.
   *
   * @param type of what it combines; not looked at where it only copies
   * @param name without what says whether it goes by the switch or is emulated
   */
  long nvls(boolean reduces, DataType type, String name, boolean emulated) {
    String family = reduces ? type.label() : COPY;
    return function("nvls_" + family, name + (emulated ? "_emulated" : "_driver"));
  }

  /** The kernel of NVLS between machines, for a type; loaded and ready to be launched. */
  long nvlsTree(DataType type, boolean emulated) {
    return function(
        "nvls-tree_" + type.label(),
        emulated ? "nccl4j_nvls_tree_emulated" : "nccl4j_nvls_tree_driver");
  }

  /**
   * The kernel of sends and receives; loaded and ready to be launched.
   *
   * @param flagged that of those alone which flags travel with
   */
  long p2p(boolean flagged) {
    return function(COPY, flagged ? "nccl4j_p2p_flagged" : "nccl4j_p2p");
  }

  /** What tells of copies, or waits for them; loaded and ready to be launched. */
  long copies(boolean waits) {
    return function(COPY, waits ? "nccl4j_copies_await" : "nccl4j_copies_tell");
  }

  /**
   * A kernel that goes straight between the ranks' buffers; loaded and ready to be launched.
   *
   * @param type of what it combines; not looked at where it only copies
   */
  long direct(boolean reduces, DataType type, String name) {
    if (reduces) {
      checkArithmetic(type);
    }
    return function("direct-" + (reduces ? type.label() : COPY), name);
  }

  /**
   * Whether a kernel's own code waits for the kernel before it, so that its blocks may come early.
   * The GPU does not decide: it also runs what was compiled for older ones, without that wait.
   */
  synchronized boolean awaitsPredecessor(long kernel) {
    return waiting.contains(kernel);
  }

  private static String name(Algorithm algorithm, Protocol protocol) {
    String of = protocol.name().toLowerCase(Locale.ROOT);
    return protocol == Protocol.SIMPLE
        ? "nccl4j_" + of
        : "nccl4j_" + of + "_" + algorithm.name().toLowerCase(Locale.ROOT);
  }

  private synchronized long function(String family, String name) {
    return functions.computeIfAbsent(family + "/" + name, key -> load(family, name));
  }

  private long load(String family, String name) {
    return device
        .context()
        .get(
            () -> {
              long module =
                  modules.computeIfAbsent(family, f -> CudaLibrary.loadModule(image(f), f, device));
              long function = CudaLibrary.function(module, name, device);
              // Asking for an attribute makes a lazily loading driver load the code now, and not at
              // the first launch, where it could have to wait for a kernel that waits for this one.
              CudaLibrary.functionAttribute(function, MAX_THREADS_PER_BLOCK, device);
              int compiledFor = CudaLibrary.functionAttribute(function, PTX_VERSION, device);
              if (compiledFor >= WAITS_FROM) {
                waiting.add(function);
              }
              return function;
            });
  }

  private static byte[] image(String family) {
    try (InputStream in =
        KernelModules.class.getResourceAsStream("kernels/" + family + ".fatbin")) {
      if (in == null) {
        throw new InvalidUsageException(
            ErrorId.UNSUPPORTED,
            "this build of nccl-device has no CUDA kernels for " + family + ": " + absence(),
            "build nccl-device where nvcc of CUDA 12 or newer is on the PATH, or use a released"
                + " jar");
      }
      return in.readAllBytes();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Why the build made no kernels. */
  private static String absence() throws IOException {
    Properties build = new Properties();
    try (InputStream in = KernelModules.class.getResourceAsStream("kernels/build.properties")) {
      if (in != null) {
        build.load(in);
      }
    }
    return build.getProperty("absence", "they are missing from the jar");
  }
}
