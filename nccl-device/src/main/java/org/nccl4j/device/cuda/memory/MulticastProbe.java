package org.nccl4j.device.cuda.memory;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.kernel.KernelDevice.MulticastRanges;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.device.support.Patience;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.operation.Operation;

/**
 * Single accesses to a multicast object by the instructions of the NVLS kernels, outside a
 * communicator's kernels. Their own small kernels wait for nobody, and precede other kernels where
 * the GPU is busy; the driver compiles them from PTX. One thread at a time.
 */
public final class MulticastProbe {
  /** As long as a GPU may be busy with other kernels. */
  private static final Duration LONGEST = Duration.ofSeconds(10);

  /** Much longer than a kernel that has begun takes. */
  private static final Duration LONGEST_KERNEL = Duration.ofSeconds(1);

  private static final int PACK = 16;
  private static final int MOST_THREADS = 1024;
  private static final String STORE = "nccl4j_probe_store";

  /** In the names of kernels for floats of 8 bits. */
  private static final String BYTES = "_f8e";

  private static final int CONFIG_BYTES = 56; // CUlaunchConfig
  private static final int CONFIG_STREAM = 32;

  /** As of a head in an all-reduce of the NVLS kernels. */
  private static final int MOVING_THREADS = 256;

  private static final String MOVE = "nccl4j_probe_move";

  /** The begin of each kernel. */
  private static final String UNLESS_REVOKED =
      """
        .reg .pred %gone;
        .reg .b32 %word;
        .reg .b64 %at;
        ld.param.u64 %at, [revoked];
        ld.volatile.global.u32 %word, [%at];
        setp.ne.u32 %gone, %word, 0;
        @%gone ret;
      """;

  private final Gpu gpu;
  private final Duration longest;
  private final Map<String, Long> functions = new HashMap<>();
  private long module;
  private long byteModule;

  public MulticastProbe(Gpu gpu) {
    this(gpu, LONGEST);
  }

  /** With another longest wait for a kernel. */
  MulticastProbe(Gpu gpu, Duration longest) {
    this.gpu = gpu;
    this.longest = longest;
  }

  /** As {@link org.nccl4j.device.kernel.KernelDevice#loadCombined}. */
  public void load(MulticastMemory all, DataType type, RedOp op, long offset, DeviceMemory target) {
    run(name(type, op), address(all) + offset, target.address(), target.size());
  }

  /** As {@link org.nccl4j.device.kernel.KernelDevice#storeToAll}. */
  public void store(DeviceMemory source, MulticastMemory all, long offset) {
    run(STORE, source.address(), address(all) + offset, source.size());
  }

  /** As {@link org.nccl4j.device.kernel.KernelDevice#moveThroughAll}. */
  public double move(MulticastMemory all, MulticastRanges ranges, int rounds) {
    long begin = address(all);
    long[] arguments = {
      begin + ranges.from(), begin + ranges.to(), ranges.stride(), ranges.bytes(), rounds
    };
    return gpu.context().get(() -> timed(ranges.blocks(), arguments));
  }

  private synchronized double timed(int blocks, long[] arguments) {
    long function = functions.computeIfAbsent(MOVE, this::function);
    long stream = CudaLibrary.createUrgentStream(gpu);
    long[] events = new long[2];
    try (Revocation revocation = new Revocation()) {
      for (int event = 0; event < events.length; event++) {
        events[event] = CudaLibrary.createEvent(/* timing= */ true, gpu);
      }
      CudaLibrary.recordEvent(events[0], stream, gpu);
      launch(function, blocks, MOVING_THREADS, stream, revocation, arguments);
      CudaLibrary.recordEvent(events[1], stream, gpu);
      revocation.await(stream);
      return 1000.0 * CudaLibrary.elapsedMilliseconds(events[0], events[1], gpu);
    } finally {
      for (long event : events) {
        if (event != 0) {
          CudaLibrary.destroyEvent(event, gpu);
        }
      }
      CudaLibrary.destroyStream(stream, gpu);
    }
  }

  private static long address(MulticastMemory all) {
    if (all.emulated()) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "the emulation of NVLS on GPUs has no single accesses",
          "use the switch (NCCL4J_NVLS_MODE=hardware)");
    }
    return all.views().get(0).address();
  }

  private void run(String name, long from, long to, long bytes) {
    int packs = Math.toIntExact(bytes / PACK);
    if (packs < 1 || packs > MOST_THREADS || bytes % PACK != 0) {
      throw new IllegalArgumentException(bytes + " bytes");
    }
    gpu.context().run(() -> runHere(name, from, to, packs));
  }

  private synchronized void runHere(String name, long from, long to, int packs) {
    long function =
        functions.computeIfAbsent(name, of -> of.contains(BYTES) ? byteFunction(of) : function(of));
    long stream = CudaLibrary.createUrgentStream(gpu);
    try (Revocation revocation = new Revocation()) {
      launch(function, 1, packs, stream, revocation, from, to, packs);
      revocation.await(stream);
    } finally {
      CudaLibrary.destroyStream(stream, gpu);
    }
  }

  /**
   * A kernel may read 4 of the 8 bytes of an argument. The last one is the word that revokes it.
   */
  private void launch(
      long function, int blocks, int threads, long stream, Revocation revocation, long... given) {
    long[] values = Arrays.copyOf(given, given.length + 1);
    values[given.length] = revocation.word.memory().address();
    Offheap config = new Offheap(CONFIG_BYTES);
    config.putInt(0, blocks).putInt(4, 1).putInt(8, 1);
    config.putInt(12, threads).putInt(16, 1).putInt(20, 1);
    config.putLong(CONFIG_STREAM, stream);
    int addresses = values.length * Long.BYTES;
    Offheap arguments = new Offheap(2 * addresses); // values, then addresses
    for (int argument = 0; argument < values.length; argument++) {
      int at = argument * Long.BYTES;
      arguments.putLong(at, values[argument]);
      arguments.putLong(addresses + at, arguments.address() + at);
    }
    try {
      DriverLibrary.launch(config.address(), function, arguments.address() + addresses, gpu);
    } finally {
      Reference.reachabilityFence(config);
      Reference.reachabilityFence(arguments);
    }
  }

  /**
   * A word that a kernel reads first: from then on that it is 1, the kernel touches nothing. The
   * memory of a kernel that did not run in time is freed, and the kernel may run after that.
   */
  private final class Revocation implements AutoCloseable {
    private final CudaPinnedMemory word = new CudaPinnedMemory(gpu, Integer.BYTES);
    private boolean mayBeRead;

    /** Waits for the kernel in a stream. If it does not end, it never touches anything. */
    void await(long stream) {
      if (hasEnded(stream, longest)) {
        return;
      }
      ByteBuffer one = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.nativeOrder());
      word.put(one.putInt(0, 1).array());
      if (hasEnded(stream, LONGEST_KERNEL)) { // it had begun before
        return;
      }
      mayBeRead = true;
      throw new TimeoutException(
          ErrorId.OPERATION,
          "a test of NVLS on %s has not ended after %s".formatted(gpu, Patience.text(longest)),
          "see whether other kernels keep the GPU busy, or set NCCL_NVLS_ENABLE=0");
    }

    private boolean hasEnded(long stream, Duration within) {
      return Patience.until(() -> CudaLibrary.isStreamIdle(stream, gpu), within);
    }

    @Override
    public void close() {
      if (mayBeRead) {
        KeptMemory.keep(
            word, "a test of NVLS on " + gpu, Integer.BYTES, "its kernel may still run");
      } else {
        word.close();
      }
    }
  }

  private long function(String name) {
    if (module == 0) {
      byte[] text = (ptx() + "\0").getBytes(StandardCharsets.US_ASCII);
      module = CudaLibrary.loadModule(text, "the test of NVLS", gpu);
    }
    return CudaLibrary.function(module, name, gpu);
  }

  /** Those of floats of 8 bits lie apart: other GPUs could not load them. */
  private long byteFunction(String name) {
    if (byteModule == 0) {
      byte[] text = (bytePtx(gpu.computeCapability()) + "\0").getBytes(StandardCharsets.US_ASCII);
      byteModule = CudaLibrary.loadModule(text, "the test of NVLS for 8 bits", gpu);
    }
    return CudaLibrary.function(byteModule, name, gpu);
  }

  private static String name(DataType type, RedOp op) {
    return "nccl4j_probe_" + type.label() + "_" + op.label();
  }

  /**
   * The kernels: one for each type and operator of the switch, one that stores, and one that moves
   * data for a measurement.
   */
  static String ptx() {
    StringBuilder text = new StringBuilder(".version 8.2\n.target sm_90\n.address_size 64\n");
    for (DataType type : DataType.values()) {
      for (RedOp op : List.of(RedOp.SUM, RedOp.MIN, RedOp.MAX)) {
        if (Nvls.has(Operation.ALL_REDUCE, type, op)) {
          text.append(entry(name(type, op), load(type, op)));
        }
      }
    }
    List<String> store =
        List.of(
            "ld.global.v4.b32 {%r0,%r1,%r2,%r3}, [%d0];",
            "multimem.st.relaxed.sys.global.v4.f32 [%d1], {%r0,%r1,%r2,%r3};");
    return text.append(entry(STORE, store)).append(moving()).toString();
  }

  /**
   * The kernels for floats of 8 bits.
   *
   * @param capability of the GPU, such as 100; its own instructions are asked for
   */
  static String bytePtx(int capability) {
    // The oldest version that knows the GPU; 10.3 came later than 10.0.
    StringBuilder text =
        new StringBuilder(
            ".version %s\n.target sm_%da\n.address_size 64\n"
                .formatted(capability == 100 ? "8.6" : "8.8", capability));
    for (DataType type : DataType.values()) {
      for (RedOp op : List.of(RedOp.SUM, RedOp.MIN, RedOp.MAX)) {
        if (type.isFloat8()) {
          String format = type == DataType.FLOAT8_E4M3 ? "e4m3x4" : "e5m2x4";
          String what = op == RedOp.SUM ? "add.acc::f16" : op == RedOp.MIN ? "min" : "max";
          text.append(entry(name(type, op), vector(what + ".v4." + format)));
        }
      }
    }
    return text.toString();
  }

  /**
   * A range of each block, in rounds: four packs of a thread are loaded at once, as in the kernels
   * of NVLS, each a row of packs of all threads apart.
   */
  private static String moving() {
    int row = MOVING_THREADS * PACK;
    StringBuilder loads = new StringBuilder();
    StringBuilder stores = new StringBuilder();
    for (int pack = 0; pack < 4; pack++) {
      int r = 4 * pack;
      String registers = "{%%r%d,%%r%d,%%r%d,%%r%d}".formatted(r, r + 1, r + 2, r + 3);
      // The range is whole rows: the last packs of a thread may lie behind it.
      loads.append(
          """
            add.u32 %%r17, %%r16, %d;
            setp.lt.u32 %%p%d, %%r17, %%r18;
            @%%p%d %s%s, [%%d3+%d];
          """
              .formatted(pack * row, pack, pack, instruction("add.v4.f32"), registers, pack * row));
      stores.append(
          "  @%%p%d multimem.st.relaxed.sys.global.v4.f32 [%%d4+%d], %s;\n"
              .formatted(pack, pack * row, registers));
    }
    return """
        .visible .entry %s(.param .u64 from, .param .u64 to, .param .u64 stride,
            .param .u32 bytes, .param .u32 rounds, .param .u64 revoked) {
          .reg .pred %%p<6>;
          .reg .b32 %%r<22>;
          .reg .b64 %%d<6>;
        %s\
          ld.param.u64 %%d0, [from];
          ld.param.u64 %%d1, [to];
          ld.param.u64 %%d2, [stride];
          ld.param.u32 %%r18, [bytes];
          ld.param.u32 %%r19, [rounds];
          mov.u32 %%r20, %%ctaid.x;
          cvt.u64.u32 %%d5, %%r20;
          mul.lo.u64 %%d5, %%d5, %%d2;
          mov.u32 %%r21, %%tid.x;
          mul.wide.u32 %%d3, %%r21, %d;
          add.s64 %%d5, %%d5, %%d3;
          add.s64 %%d0, %%d0, %%d5;
          add.s64 %%d1, %%d1, %%d5;
          fence.proxy.alias;
        round:
          setp.eq.u32 %%p4, %%r19, 0;
          @%%p4 bra end;
          sub.u32 %%r19, %%r19, 1;
          mov.u64 %%d3, %%d0;
          mov.u64 %%d4, %%d1;
          mov.u32 %%r16, 0;
        rows:
        %s%s  add.s64 %%d3, %%d3, %d;
          add.s64 %%d4, %%d4, %d;
          add.u32 %%r16, %%r16, %d;
          setp.lt.u32 %%p5, %%r16, %%r18;
          @%%p5 bra rows;
          bra round;
        end:
          fence.proxy.alias;
          ret;
        }
        """
        .formatted(MOVE, UNLESS_REVOKED, PACK, loads, stores, 4 * row, 4 * row, 4 * row);
  }

  /** A pack from the first address to the second, for each thread. */
  private static String entry(String name, List<String> body) {
    return """
        .visible .entry %s(.param .u64 from, .param .u64 to, .param .u32 packs,
            .param .u64 revoked) {
          .reg .pred %%p;
          .reg .b32 %%r<6>;
          .reg .b64 %%d<5>;
          .reg .f64 %%f<2>;
        %s\
          ld.param.u64 %%d0, [from];
          ld.param.u64 %%d1, [to];
          ld.param.u32 %%r4, [packs];
          mov.u32 %%r5, %%tid.x;
          setp.ge.u32 %%p, %%r5, %%r4;
          @%%p bra end;
          mul.wide.u32 %%d2, %%r5, 16;
          add.s64 %%d0, %%d0, %%d2;
          add.s64 %%d1, %%d1, %%d2;
          fence.proxy.alias;
          %s
          fence.proxy.alias;
        end:
          ret;
        }
        """
        .formatted(name, UNLESS_REVOKED, String.join("\n  ", body));
  }

  private static List<String> load(DataType type, RedOp op) {
    String verb = op == RedOp.SUM ? "add" : op == RedOp.MIN ? "min" : "max";
    String sum = op == RedOp.SUM ? ".acc::f32" : "";
    if (type.isFloatingPoint() && type.bytes() == 2) {
      return vector(verb + sum + ".v4." + (type == DataType.FLOAT16 ? "" : "b") + "f16x2");
    }
    return switch (type) {
      case FLOAT32 -> vector(verb + ".v4.f32");
      case FLOAT64 -> pair("%f", ".f64", verb + ".f64");
      case INT64 -> pair("%d", ".b64", verb + (op == RedOp.SUM ? ".u64" : ".s64"));
      case UINT64 -> pair("%d", ".b64", verb + ".u64");
      case INT32 -> words(verb + (op == RedOp.SUM ? ".u32" : ".s32"));
      case UINT32 -> words(verb + ".u32");
      default -> throw new IllegalArgumentException(type.label());
    };
  }

  private static String instruction(String what) {
    return "multimem.ld_reduce.relaxed.sys.global." + what + " ";
  }

  private static List<String> vector(String what) {
    return List.of(
        instruction(what) + "{%r0,%r1,%r2,%r3}, [%d0];",
        "st.global.v4.b32 [%d1], {%r0,%r1,%r2,%r3};");
  }

  private static List<String> words(String what) {
    List<String> lines = new ArrayList<>();
    for (int word = 0; word < 4; word++) {
      lines.add(instruction(what) + "%r0, [%d0+" + 4 * word + "];");
      lines.add("st.global.b32 [%d1+" + 4 * word + "], %r0;");
    }
    return lines;
  }

  private static List<String> pair(String registers, String type, String what) {
    String register = registers.equals("%d") ? "%d3" : "%f0";
    List<String> lines = new ArrayList<>();
    for (int word = 0; word < 2; word++) {
      lines.add(instruction(what) + register + ", [%d0+" + 8 * word + "];");
      lines.add("st.global" + type + " [%d1+" + 8 * word + "], " + register + ";");
    }
    return lines;
  }
}
