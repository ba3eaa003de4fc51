package org.nccl4j.device.cuda.module;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.Nvrtc;
import org.nccl4j.device.kernel.KernelCommunicator.LocalReduction;

/**
 * The kernels of users' functors on one GPU, which stay loaded. A functor that is given as source
 * is compiled once for each compute capability in a process, with the header that users compile
 * their own images with. Any thread may call.
 */
public final class FunctorModules {
  private static final String HEADER = "nccl4j_reduction.cuh";
  private static final String FOLDER = "/org/nccl4j/device/cuda/include/";

  /** The kernel in {@link #HEADER}; the number changes with the layout of its arguments. */
  private static final String KERNEL = "nccl4j_reduction_2";

  /** A variable of an element's size. */
  private static final String ELEMENT = "nccl4j_reduction_element";

  private static final int MAX_THREADS_PER_BLOCK = 0; // CU_FUNC_ATTRIBUTE_...
  private static final int FLOAT8_FROM = 89;

  /** Compiled images; also the lock under which functors are compiled. */
  private static final Map<Target, byte[]> IMAGES = new HashMap<>();

  private final Gpu gpu;
  private final Map<Code, Long> functions = new HashMap<>();

  /**
   * A kernel: a functor for elements.
   *
   * @param type of the elements; null for structs
   * @param bytes of an element
   */
  private record Code(CudaFunctor functor, DataType type, int bytes) {}

  private record Target(Code code, int capability) {}

  FunctorModules(Gpu gpu) {
    this.gpu = gpu;
  }

  /**
   * The kernel of a reduction, compiled and loaded.
   *
   * @param nvrtc the compiler's file or folder; empty to look for it
   */
  public synchronized long function(LocalReduction work, String nvrtc) {
    CudaFunctor functor = work.operator().functor();
    if (functor == null) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "the reduction '%s' has no function for GPUs".formatted(work.operator().name()),
          "make it by ReductionOperator.function and onCuda, or use the host device");
    }
    DataType type = work.operator().isOfStructs() ? null : work.type();
    if (type != null && type.isFloat8() && gpu.computeCapability() < FLOAT8_FROM) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s has no conversions of %s".formatted(gpu, type.label()),
          "use another type, or a GPU of compute capability 8.9 or newer");
    }
    Code code = new Code(functor, type, work.elementBytes());
    Long known = functions.get(code);
    if (known == null) {
      byte[] image = functor.image() == null ? compiled(code, nvrtc) : functor.image();
      known = gpu.context().get(() -> load(code, image));
      functions.put(code, known);
    }
    return known;
  }

  private byte[] compiled(Code code, String nvrtc) {
    Target target = new Target(code, gpu.computeCapability());
    synchronized (IMAGES) {
      byte[] image = IMAGES.get(target);
      if (image == null) {
        image = Nvrtc.find(nvrtc).compile(program(code), target.capability);
        IMAGES.put(target, image);
      }
      return image;
    }
  }

  /** The user's text between what it needs; lines are counted from its own first one. */
  static Nvrtc.Program program(CudaFunctor functor, DataType type, int bytes) {
    return program(new Code(functor, type, bytes));
  }

  private static Nvrtc.Program program(Code code) {
    String name = code.functor.name();
    String file = name.replace("::", ".") + ".cu";
    String element =
        code.type == null
            ? "decltype(nccl4j_reduction::argument(&%s::operator()))".formatted(name)
            : "nccl4j_reduction::element_" + code.type.label();
    String source =
        """
        #include "%s"
        #line 1 "%s"
        %s
        #line 1 "nccl4j"
        static_assert(sizeof(%s) == %d, "the size of an element is not that of the operator");
        NCCL4J_REDUCTION(%s, %s)
        """
            .formatted(HEADER, file, code.functor.source(), element, code.bytes, name, element);
    return new Nvrtc.Program(
        code.functor.toString(), source, Map.of(HEADER, header()), code.functor.compilerOptions());
  }

  private static String header() {
    try (InputStream in = FunctorModules.class.getResourceAsStream(FOLDER + HEADER)) {
      if (in == null) {
        throw new InternalErrorException(
            "the header %s is missing from the jar".formatted(HEADER), "build nccl-device again");
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private long load(Code code, byte[] image) {
    byte[] ended = Arrays.copyOf(image, image.length + 1); // PTX is a text with a zero at its end
    long module;
    try {
      module = CudaLibrary.loadModule(ended, code.functor.toString(), gpu);
    } catch (CudaException e) {
      throw unusable(code, e);
    }
    try {
      return kernel(code, module);
    } catch (RuntimeException e) {
      unload(module, e);
      throw e;
    }
  }

  private void unload(long module, RuntimeException cause) {
    try {
      CudaLibrary.unloadModule(module, gpu);
    } catch (CudaException e) {
      cause.addSuppressed(e);
    }
  }

  private long kernel(Code code, long module) {
    long function;
    OptionalLong bytes;
    try {
      function = CudaLibrary.function(module, KERNEL, gpu);
      bytes = CudaLibrary.variableBytes(module, ELEMENT, gpu);
      // A lazily loading driver loads the code now; see KernelModules.
      CudaLibrary.functionAttribute(function, MAX_THREADS_PER_BLOCK, gpu);
    } catch (CudaException e) {
      throw unusable(code, e);
    }
    if (bytes.isPresent() && bytes.getAsLong() != code.bytes) {
      throw new InvalidArgumentException(
          ErrorId.TYPE,
          "the image of the %s is for elements of %d bytes, and the operator's have %d"
              .formatted(code.functor, bytes.getAsLong(), code.bytes),
          "compile it with NCCL4J_REDUCTION for the operator's type");
    }
    return function;
  }

  private InvalidUsageException unusable(Code code, CudaException e) {
    boolean source = code.functor.image() == null;
    return new InvalidUsageException(
        ErrorId.UNSUPPORTED,
        "%s cannot load the %s: %s".formatted(gpu, code.functor, e.problem()),
        source
            ? "the driver is older than the compiler: name an NVRTC of the driver's CUDA version by"
                + " NCCL4J_NVRTC"
            : "compile the image with nvcc -cubin -arch=sm_%d, this version's %s and NCCL4J_REDUCTION"
                .formatted(gpu.computeCapability(), HEADER),
        e);
  }
}
