package org.nccl4j.device.cuda.driver;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NvrtcFunctions;
import org.nccl4j.device.bind.Offheap;

/**
 * The only caller of NVRTC, NVIDIA's compiler of CUDA C++ at run time ({@code libnvrtc.so}), which
 * is loaded when a program is first compiled. Any thread may call.
 */
public final class Nvrtc {
  private static final int COMPILATION = 6; // NVRTC_ERROR_COMPILATION
  private static final int MAJOR = 1000; // in the driver's version
  private static final String REMEDY =
      "install NVRTC, of the CUDA toolkit or of the Python package nvidia-cuda-nvrtc, or name"
          + " libnvrtc.so by NCCL4J_NVRTC; or compile the functor with nvcc and"
          + " nccl4j_reduction.cuh (./nccl device-headers DIR), and pass it by CudaFunctor.ofImage";

  private static final Map<String, Nvrtc> LOADED = new HashMap<>();

  private final NvrtcFunctions nvrtc;
  private final String file;

  private Nvrtc(NvrtcFunctions nvrtc, String file) {
    this.nvrtc = nvrtc;
    this.file = file;
  }

  /**
   * A program in CUDA C++.
   *
   * @param name for messages
   * @param source its text
   * @param headers texts of files that it includes, by name
   * @param options of the compiler beside the architecture
   */
  public record Program(
      String name, String source, Map<String, String> headers, List<String> options) {}

  /**
   * The compiler.
   *
   * @param setting its file or folder; empty to look for it
   * @throws InvalidUsageException if there is none
   */
  public static Nvrtc find(String setting) {
    synchronized (LOADED) {
      Nvrtc known = LOADED.get(setting);
      if (known == null) {
        known = load(setting);
        LOADED.put(setting, known);
      }
      return known;
    }
  }

  private static Nvrtc load(String setting) {
    List<String> tried = NvrtcFiles.candidates(setting, CudaLibrary.driverVersion() / MAJOR);
    SystemErrorException first = null;
    for (String file : tried) {
      try {
        loadBuiltins(file);
        return new Nvrtc(NativeLibrary.load(NvrtcFunctions.class, file), file);
      } catch (SystemErrorException e) {
        first = first == null ? e : first;
      }
    }
    throw new InvalidUsageException(
        ErrorId.UNSUPPORTED,
        "a CUDA functor is given as source, and NVRTC, which compiles it, cannot be loaded"
            + (tried.isEmpty()
                ? " (there is none in %s)".formatted(setting)
                : " (%s)".formatted(first.problem())),
        REMEDY,
        first);
  }

  /** NVRTC opens them by name alone, which succeeds once they are in the process. */
  private static void loadBuiltins(String file) {
    if (file.indexOf('/') >= 0) {
      NvrtcFiles.builtins(Path.of(file))
          .ifPresent(builtins -> NativeLibrary.keep(builtins.toString()));
    }
  }

  /** The file and the version, for messages. */
  @Override
  public String toString() {
    Offheap out = new Offheap(8);
    int result = out.lend(at -> nvrtc.nvrtcVersion(at, at + 4));
    return result == 0 ? "NVRTC %d.%d (%s)".formatted(out.getInt(0), out.getInt(4), file) : file;
  }

  /**
   * Compiles a program for a GPU: to its own code, or where this NVRTC does not know the GPU, to
   * PTX for the newest older one, which the driver compiles.
   *
   * @param capability the GPU's compute capability times ten
   * @throws InvalidUsageException with the compiler's log, if it does not compile
   */
  public byte[] compile(Program program, int capability) {
    int architecture = architecture(capability);
    boolean own = architecture == capability;
    List<String> options = new ArrayList<>();
    options.add("--gpu-architecture=%s_%d".formatted(own ? "sm" : "compute", architecture));
    options.add("--std=c++17");
    options.addAll(program.options);
    Texts texts = new Texts();
    long source = texts.add(program.source);
    long name = texts.add(program.name);
    long contents = texts.array(List.copyOf(program.headers.values()));
    long names = texts.array(List.copyOf(program.headers.keySet()));
    long arguments = texts.array(options);
    Offheap out = new Offheap(8);
    try {
      check(
          nvrtc.nvrtcCreateProgram(
              out.address(), source, name, program.headers.size(), contents, names),
          "nvrtcCreateProgram");
      long made = out.getLong(0);
      try {
        int result = nvrtc.nvrtcCompileProgram(made, options.size(), arguments);
        if (result != 0) {
          throw failure(program, made, result, capability);
        }
        return own
            ? bytes(made, "CUBIN", nvrtc::nvrtcGetCUBINSize, nvrtc::nvrtcGetCUBIN)
            : bytes(made, "PTX", nvrtc::nvrtcGetPTXSize, nvrtc::nvrtcGetPTX);
      } finally {
        nvrtc.nvrtcDestroyProgram(out.putLong(0, made).address());
      }
    } finally {
      texts.keep();
    }
  }

  /** The capability, or the newest older one that this NVRTC knows. */
  private int architecture(int capability) {
    Offheap out = new Offheap(8);
    check(nvrtc.nvrtcGetNumSupportedArchs(out.address()), "nvrtcGetNumSupportedArchs");
    int count = out.getInt(0);
    Offheap all = new Offheap(Math.max(1, count) * Integer.BYTES);
    check(all.lend(at -> nvrtc.nvrtcGetSupportedArchs(at)), "nvrtcGetSupportedArchs");
    TreeSet<Integer> known = new TreeSet<>();
    for (int i = 0; i < count; i++) {
      known.add(all.getInt(i * Integer.BYTES));
    }
    Integer floor = known.floor(capability);
    if (floor == null) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s compiles for compute capabilities from %s on, and the GPU's is %d"
              .formatted(this, known.isEmpty() ? "none" : known.first(), capability),
          "install an older NVRTC and name it by NCCL4J_NVRTC, or pass an image");
    }
    return floor;
  }

  private InvalidUsageException failure(Program program, long made, int result, int capability) {
    String log =
        new String(
                bytes(made, "log", nvrtc::nvrtcGetProgramLogSize, nvrtc::nvrtcGetProgramLog),
                StandardCharsets.UTF_8)
            .replace("\0", "")
            .strip();
    return new InvalidUsageException(
        ErrorId.USER_FUNCTION,
        "%s does not compile for compute capability %d by %s (%s):%n%s"
            .formatted(program.name, capability, this, nvrtc.nvrtcGetErrorString(result), log),
        result == COMPILATION
            ? "correct the source; lines are counted from the beginning of the text that was passed"
            : "correct the compiler's options, or repair the installation of NVRTC");
  }

  /** A function of a program and an address. */
  private interface Answer {
    int call(long program, long address);
  }

  private byte[] bytes(long program, String what, Answer size, Answer contents) {
    Offheap out = new Offheap(8);
    check(size.call(program, out.address()), "size of the " + what);
    Offheap all = new Offheap((int) out.getLong(0) + 1);
    check(all.lend(at -> contents.call(program, at)), what);
    byte[] copied = new byte[(int) out.getLong(0)];
    all.bytes().get(0, copied);
    return copied;
  }

  private void check(int result, String what) {
    if (result != 0) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s fails: %s: %s (%d)".formatted(file, what, nvrtc.nvrtcGetErrorString(result), result),
          "name another NVRTC by NCCL4J_NVRTC");
    }
  }

  /** Texts for the compiler, which stay where they are until its call has returned. */
  private static final class Texts {
    private final List<Offheap> all = new ArrayList<>();

    long add(String text) {
      Offheap copy = Offheap.of((text + "\0").getBytes(StandardCharsets.UTF_8));
      all.add(copy);
      return copy.address();
    }

    long array(List<String> texts) {
      Offheap addresses = new Offheap(Math.max(1, texts.size()) * Long.BYTES);
      for (int i = 0; i < texts.size(); i++) {
        addresses.putLong(i * Long.BYTES, add(texts.get(i)));
      }
      all.add(addresses);
      return addresses.address();
    }

    void keep() {
      all.forEach(text -> text.lend(at -> 0));
    }
  }
}
