package org.nccl4j.device;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;

/**
 * A function of two elements for GPUs: a class of CUDA C++ with {@code T operator()(T a, T b)}, as
 * source or compiled. {@link ReductionOperator.Builder#onCuda} makes a reduction of it. Immutable.
 *
 * <p>T is the C++ type of the elements: for integers that of the same size and sign, float and
 * double; float also for elements of 1 or 2 bytes in floating point, of which only the result of
 * all ranks is rounded, once; and for structs the type that the function takes.
 *
 * <p>The function must give equal results for equal operands, must not depend on the number of the
 * thread, and is called for each element on its own. The class needs a constructor without
 * arguments.
 */
public final class CudaFunctor {
  private static final Pattern NAME =
      Pattern.compile("[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*");

  private final String name;
  private final String source;
  private final byte[] image;
  private final List<String> options;

  private CudaFunctor(String name, String source, byte[] image, List<String> options) {
    this.name = name;
    this.source = source;
    this.image = image;
    this.options = options;
  }

  /**
   * A functor in CUDA C++, which NVRTC compiles for a GPU at the first operation or {@code
   * Communicator.prepare} that needs it there. NVRTC (libnvrtc.so) comes with the CUDA toolkit, and
   * alone as nvidia-cuda-nvrtc; the setting NCCL4J_NVRTC names it where it is not found. Equal
   * functors are compiled once for each kind of GPU in a process.
   *
   * @param name of the class, such as "MaxAbs" or "mine::MaxAbs"
   * @param source that declares it; its operator() and constructors are marked {@code __device__}.
   *     NVRTC has no standard library and no CUDA headers unless options name folders of them
   * @throws InvalidArgumentException if the name is not that of a class
   */
  public static CudaFunctor ofSource(String name, String source) {
    return new CudaFunctor(
        checked(name), Arguments.notNull(source, "source of the functor"), null, List.of());
  }

  /**
   * A functor that was compiled with {@code NCCL4J_REDUCTION} of the header nccl4j_reduction.cuh,
   * which {@code ./nccl device-headers DIR} unpacks. Needs no NVRTC.
   *
   * @param name for messages
   * @param image a cubin or fatbin for the GPU, or PTX
   * @throws InvalidArgumentException if the name is not that of a class, or the image is empty
   */
  public static CudaFunctor ofImage(String name, byte[] image) {
    if (Arguments.notNull(image, "image of the functor").length == 0) {
      throw new InvalidArgumentException(
          ErrorId.ARGUMENT,
          "the image of the CUDA functor %s is empty".formatted(name),
          "pass the bytes of a file that nvcc made with -cubin, -fatbin or -ptx");
    }
    return new CudaFunctor(checked(name), null, image.clone(), List.of());
  }

  private static String checked(String name) {
    if (!NAME.matcher(Arguments.notNull(name, "name of the functor")).matches()) {
      throw new InvalidArgumentException(
          ErrorId.ARGUMENT,
          "'%s' does not name a class of CUDA C++".formatted(name),
          "pass the class's name, such as MaxAbs or mine::MaxAbs; give an instance of a template a"
              + " name with using");
    }
    return name;
  }

  /**
   * The same functor, compiled with further options of NVRTC, such as {@code
   * -I/usr/local/cuda/include}, {@code --use_fast_math} or {@code -DNAME=VALUE}. The architecture
   * is the GPU's. An image ignores them.
   */
  public CudaFunctor withCompilerOptions(String... more) {
    for (String option : Arguments.notNull(more, "compiler options")) {
      Arguments.notNull(option, "compiler option");
    }
    return new CudaFunctor(name, source, image, List.of(more));
  }

  /** The name of its class. */
  public String name() {
    return name;
  }

  /** The source; null for an image. */
  public String source() {
    return source;
  }

  /** The compiled code; null for a source. */
  public byte[] image() {
    return image == null ? null : image.clone();
  }

  /** Options of the compiler. */
  public List<String> compilerOptions() {
    return options;
  }

  /** Functors with the same name, code and options are equal. */
  @Override
  public boolean equals(Object other) {
    return other instanceof CudaFunctor that
        && name.equals(that.name)
        && Objects.equals(source, that.source)
        && Arrays.equals(image, that.image)
        && options.equals(that.options);
  }

  @Override
  public int hashCode() {
    return Objects.hash(name, source, Arrays.hashCode(image), options);
  }

  @Override
  public String toString() {
    return "CUDA functor " + name;
  }
}
