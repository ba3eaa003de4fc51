package org.nccl4j.device.cuda.module;

import java.lang.System.Logger.Level;
import java.lang.ref.Reference;
import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.driver.KernelFiles;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * The kernels of one device, loaded when a plan first asks for one of their family: a fatbin for
 * each type of element, and one for what only copies. Any thread may call.
 *
 * <p>All kernels of a family are loaded at once. The driver may load a kernel's code only when the
 * GPU is idle, and a kernel that waits for another rank keeps it from being so: two communicators
 * whose ranks launch in opposite order could wait for each other for ever. So communicators {@link
 * #preload} their families at creation. A family that a setting has left out may still have to be
 * loaded while another communicator's kernel waits.
 *
 * <p>The table from (collective, operator, type, algorithm, protocol) to a function is in the
 * names: the type and whether it reduces at all choose the module, algorithm and protocol the
 * function; collective and operator are arguments, since branching on them costs nothing beside a
 * flight over NVLink and a family of kernels for each would be forty times the code.
 */
public final class KernelModules {
  private static final System.Logger LOG = DebugLog.of("INIT");
  private static final int MAX_THREADS_PER_BLOCK = 0; // CU_FUNC_ATTRIBUTE_...
  private static final int PTX_VERSION = 5; // CU_FUNC_ATTRIBUTE_...

  /** The compute capability from which on kernels are compiled with a wait; launch.cuh. */
  private static final int WAITS_FROM = 90;

  private static final Map<String, Reference<byte[]>> IMAGES = new HashMap<>();

  private final Gpu gpu;
  private final Map<String, Long> modules = new HashMap<>();
  private final Map<String, Long> functions = new HashMap<>();
  private final Set<KernelFamily> loaded = new HashSet<>();
  private final Set<Long> waiting = new HashSet<>();
  private final FunctorModules functors;
  private KernelBuild build;

  public KernelModules(Gpu gpu) {
    this.gpu = gpu;
    this.functors = new FunctorModules(gpu);
  }

  /** The kernels of users' functors. */
  public FunctorModules functors() {
    return functors;
  }

  /** The kernel of a collective; loaded and ready to be launched. */
  public long collective(
      Operation operation, DataType type, Algorithm algorithm, Protocol protocol) {
    boolean reduces = operation.reduces();
    if (reduces) {
      checkArithmetic(type);
    }
    return function(
        reduces ? KernelFamily.reductions(type) : KernelFamily.copies(),
        KernelFamily.kernel(algorithm, protocol));
  }

  private void checkArithmetic(DataType type) {
    if (!hasArithmetic(type)) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s has no float8 arithmetic".formatted(gpu),
          "use another type, or a GPU of compute capability 9.0 or newer");
    }
  }

  private boolean hasArithmetic(DataType type) {
    return !type.isFloat8() || gpu.computeCapability() >= 90;
  }

  /**
   * A kernel of NVLS; loaded and ready to be launched.
   *
   * @param type of what it combines; not looked at where it only copies
   * @param name without what says whether it goes by the switch or is emulated
   */
  public long nvls(boolean reduces, DataType type, String name, boolean emulated) {
    return function(
        reduces ? KernelFamily.nvlsReductions(type, emulated) : KernelFamily.nvlsCopies(emulated),
        KernelFamily.inForm(name, emulated));
  }

  /**
   * True if this build has the kernels that reduce a type through NVLS for this GPU; loads them.
   */
  public boolean hasNvls(DataType type) {
    KernelFamily family = KernelFamily.nvlsReductions(type, /* emulated= */ false);
    if (!isInBuild(family)) {
      return false;
    }
    try {
      load(family);
      return true;
    } catch (CudaException e) {
      LOG.log(
          Level.DEBUG, "There are no kernels {0} for {1}: {2}", family.file(), gpu, e.problem());
      return false;
    }
  }

  /** The kernel of NVLS between machines, for a type; loaded and ready to be launched. */
  public long nvlsTree(DataType type, boolean emulated) {
    return function(
        KernelFamily.nvlsTree(type, emulated), KernelFamily.inForm("nccl4j_nvls_tree", emulated));
  }

  /** A kernel of sends and receives; loaded and ready to be launched. */
  public long p2p(MessageKernel kernel) {
    return function(KernelFamily.copies(), kernel.function());
  }

  /** The kernel that signals copies, or that waits for them; loaded and ready to be launched. */
  public long copies(boolean waits) {
    return function(KernelFamily.copies(), waits ? "nccl4j_copies_await" : "nccl4j_copies_tell");
  }

  /**
   * A kernel that goes straight between the ranks' buffers; loaded and ready to be launched.
   *
   * @param type of what it combines; not looked at where it only copies
   */
  public long direct(boolean reduces, DataType type, String name) {
    if (reduces) {
      checkArithmetic(type);
    }
    return function(
        reduces ? KernelFamily.directReductions(type) : KernelFamily.directCopies(), name);
  }

  /** A kernel for experts with tokens of a type; loaded and ready to be launched. */
  public long experts(DataType type, String name) {
    return function(KernelFamily.experts(type), name);
  }

  /** True if this build has the kernels for experts with tokens of a type. */
  public boolean hasExperts(DataType type) {
    return isInBuild(KernelFamily.experts(type));
  }

  /** The kernel of exchanges by counts in device memory; loaded and ready to be launched. */
  public long ragged() {
    return function(KernelFamily.ragged(), KernelFamily.raggedExchange());
  }

  /**
   * The kernel that combines what such an exchange has brought, for a type; loaded with {@link
   * #ragged} and ready to be launched.
   */
  public long raggedSum(DataType type) {
    checkArithmetic(type);
    return function(KernelFamily.ragged(), KernelFamily.raggedSum(type));
  }

  /** True if this build has these kernels. */
  public boolean hasRagged() {
    return isInBuild(KernelFamily.ragged());
  }

  /** A kernel of quantised sums of a type; loaded and ready to be launched. */
  public long quantised(DataType type, String name) {
    return function(KernelFamily.quantised(type), name);
  }

  /**
   * True if a kernel's own code waits for the kernel before it, so that its blocks may come early.
   * The GPU does not decide: it also runs what was compiled for older ones, without that wait.
   */
  public synchronized boolean awaitsPredecessor(long kernel) {
    return waiting.contains(kernel);
  }

  /**
   * Loads what a communicator can launch, before any of its kernels waits for another rank. A
   * family that this build or this GPU lacks is left out: the first operation that needs it says
   * so.
   *
   * @param types those that are reduced; kernels that only copy are loaded as well
   * @param nvls of the communicator; null where it has none
   */
  public void preload(Set<DataType> types, Nvls nvls) {
    loadAll(families(types, nvls));
  }

  /**
   * Begins {@link #preload} on a thread of its own, while a communicator's ranks meet and connect.
   * Their creation waits for the family that is being loaded, and loads the others itself.
   */
  public void beginPreload(Set<DataType> types) {
    List<KernelFamily> families = types.isEmpty() ? List.of() : families(types, null);
    if (families.stream().allMatch(this::isLoaded)) {
      return;
    }
    Thread thread = new Thread(() -> loadAhead(families), "nccl4j-kernels");
    thread.setDaemon(true);
    thread.start();
  }

  private void loadAhead(List<KernelFamily> families) {
    try {
      loadAll(families);
    } catch (RuntimeException e) {
      LOG.log(Level.DEBUG, "Kernels could not be loaded at creation: {0}", e);
    }
  }

  private void loadAll(List<KernelFamily> families) {
    for (KernelFamily family : families) {
      if (isLoaded(family) || isInBuild(family)) {
        load(family);
      }
    }
  }

  private List<KernelFamily> families(Set<DataType> types, Nvls nvls) {
    List<KernelFamily> families = new ArrayList<>();
    families.add(KernelFamily.copies());
    families.add(KernelFamily.directCopies());
    families.add(KernelFamily.ragged());
    types.stream()
        .filter(this::hasArithmetic)
        .forEach(
            type -> {
              families.add(KernelFamily.reductions(type));
              families.add(KernelFamily.directReductions(type));
              if (QuantisedWork.Parts.hasType(type)) {
                families.add(KernelFamily.quantised(type));
                families.add(KernelFamily.experts(type));
              }
            });
    if (nvls != null) {
      boolean emulated = nvls.multicast().emulated();
      families.add(KernelFamily.nvlsCopies(emulated));
      types.stream()
          .filter(type -> nvls.combines(Operation.ALL_REDUCE, type, RedOp.SUM))
          .forEach(
              type -> {
                families.add(KernelFamily.nvlsReductions(type, emulated));
                if (nvls.machines() > 1) {
                  families.add(KernelFamily.nvlsTree(type, emulated));
                }
              });
    }
    return families;
  }

  /** The kernels that were found; looked for again until there are some. */
  private synchronized KernelBuild build() {
    if (build == null || build.absence().isPresent()) {
      build = KernelBuild.present();
    }
    return build;
  }

  private synchronized boolean isLoaded(KernelFamily family) {
    return loaded.contains(family);
  }

  private boolean isInBuild(KernelFamily family) {
    return build().absence().isEmpty() && KernelFiles.has(resource(family.file()));
  }

  private synchronized long function(KernelFamily family, String name) {
    if (!family.kernels().contains(name)) {
      throw new IllegalArgumentException("the kernel " + name + " is not of " + family);
    }
    String key = key(family, name);
    if (!functions.containsKey(key)) {
      load(family);
    }
    return functions.get(key);
  }

  private static String key(KernelFamily family, String name) {
    return family.file() + "/" + name;
  }

  private synchronized void load(KernelFamily family) {
    if (!loaded.contains(family)) {
      gpu.context().run(() -> loadAll(family));
      loaded.add(family);
    }
  }

  private void loadAll(KernelFamily family) {
    long module =
        modules.computeIfAbsent(
            family.file(), file -> CudaLibrary.loadModule(image(file), file + ".fatbin", gpu));
    for (String name : family.kernels()) {
      long function = CudaLibrary.function(module, name, gpu);
      // Asking for an attribute makes a lazily loading driver load the code now, and not at the
      // first launch, where it could have to wait for a kernel that waits for this one.
      CudaLibrary.functionAttribute(function, MAX_THREADS_PER_BLOCK, gpu);
      if (CudaLibrary.functionAttribute(function, PTX_VERSION, gpu) >= WAITS_FROM) {
        waiting.add(function);
      }
      functions.put(key(family, name), function);
    }
  }

  private static String resource(String file) {
    return file + ".fatbin";
  }

  private byte[] image(String family) {
    build().absence().ifPresent(absence -> fail(family, absence.fact(), absence.remedy()));
    byte[] image = read(resource(family));
    if (image == null) {
      fail(family, "they are missing from nccl-kernels", "build nccl-kernels again");
    }
    return image;
  }

  /** Reads a file once for all GPUs that load it at about the same time. */
  private static byte[] read(String file) {
    synchronized (IMAGES) {
      Reference<byte[]> kept = IMAGES.get(file);
      byte[] image = kept == null ? null : kept.get();
      if (image == null) {
        image = KernelFiles.read(file);
        IMAGES.put(file, new SoftReference<>(image));
      }
      return image;
    }
  }

  private static void fail(String family, String fact, String remedy) {
    throw new InvalidUsageException(
        ErrorId.UNSUPPORTED,
        "there are no CUDA kernels for %s: %s".formatted(family, fact),
        remedy);
  }
}
