import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.MachineCode;
import org.nccl4j.device.host.memory.StreamingCopy;

/**
 * Ways to copy memory, by turns: the least nanoseconds of a copy, and GB/s. Arguments: where the
 * data are, rounds, then sizes in bytes. Places:
 *
 * <ul>
 *   <li>near: the same two buffers again and again
 *   <li>far: buffers that go through 128 MiB
 *   <li>other: before each copy a thread on another core has written the source and read the target,
 *       as ranks do with slots
 * </ul>
 */
public class HostCopies {
  private interface Copy {
    void copy(long from, long to, int bytes);
  }

  /** xchg rdi, rsi; mov rcx, rdx; rep movsb. */
  private static final String REP_MOVSB = "4887f7 4889d1 f3a4 31c0 c3";

  /** 128 bytes a turn: vmovdqu ymm0..3, [rsi]; vmovdqu [rdi], ymm0..3; the rest by rep movsb. */
  private static final String AVX2 =
      "4887f74889d148c1e9077433c5fe6f06c5fe6f4e20c5fe"
          + "6f5640c5fe6f5e60c5fe7f07c5fe7f4f20c5fe7f5740c5"
          + "fe7f5f604883ee804883ef8048ffc975cd89d183e17ff3"
          + "a4c5f87731c0c3";

  /** The same by vmovntdq, from the first 32 bytes of the target on that are aligned; sfence. */
  private static final String AVX2_STREAMING =
      "4887f74889f948f7d983e11f4839d1480f47ca4829caf3"
          + "a44889d148c1e9077433c5fe6f06c5fe6f4e20c5fe6f56"
          + "40c5fe6f5e60c5fde707c5fde74f20c5fde75740c5fde7"
          + "5f604883ee804883ef8048ffc975cd89d183e17ff3a40f"
          + "aef8c5f87731c0c3";

  private static final int REGION = 64 << 20;
  private static final int LINE = 64;
  private static final ByteBuffer SOURCE = region();
  private static final ByteBuffer TARGET = region();
  private static final long FROM = HostMemory.addressOf(SOURCE);
  private static final long TO = HostMemory.addressOf(TARGET);

  /** Keeps the code mapped. */
  private static final List<MachineCode> CODES = new ArrayList<>();

  /** Bytes that the other thread is to write and read; 0 once it has. */
  private static volatile int wanted;

  private static volatile long seen;

  private static ByteBuffer region() {
    return ByteBuffer.allocateDirect(REGION + LINE).alignedSlice(LINE).order(ByteOrder.nativeOrder());
  }

  private static Copy code(String digits) {
    MachineCode code = MachineCode.of(digits);
    CODES.add(code);
    return new NativeFunction.OfThree(code.address())::call;
  }

  private static Map<String, Copy> ways() throws Exception {
    Map<String, Copy> ways = new LinkedHashMap<>();
    ways.put("JVM", (f, t, n) -> TARGET.put((int) (t - TO), SOURCE, (int) (f - FROM), n));
    ways.put("library", HostMemory::move);
    ways.put("movntdq", StreamingCopy.open()::copy);
    ways.put("rep movsb", code(REP_MOVSB));
    if (Files.readString(Path.of("/proc/cpuinfo")).contains(" avx2 ")) {
      ways.put("AVX2", code(AVX2));
      ways.put("AVX2 movntdq", code(AVX2_STREAMING));
    }
    return ways;
  }

  public static void main(String[] arguments) throws Exception {
    boolean far = arguments[0].equals("far");
    boolean other = arguments[0].equals("other");
    int rounds = Integer.parseInt(arguments[1]);
    Map<String, Copy> ways = ways();
    for (int at = 0; at < REGION; at += Long.BYTES) {
      SOURCE.putLong(at, at);
      TARGET.putLong(at, at);
    }
    ways.values().forEach(HostCopies::compile);
    if (other) {
      Thread peer = new Thread(HostCopies::answer);
      peer.setDaemon(true);
      peer.start();
    }
    System.out.printf("%-9s", arguments[0]);
    ways.keySet().forEach(name -> System.out.printf("  %17s", name));
    System.out.println();
    for (int a = 2; a < arguments.length; a++) {
      int bytes = Integer.parseInt(arguments[a]);
      int copies = other ? 1 : Math.max(1, Math.min(1000, (1 << 18) / bytes));
      long[] least = new long[ways.size()];
      Arrays.fill(least, Long.MAX_VALUE);
      int at = 0;
      for (int round = 0; round < rounds; round++) {
        int way = 0;
        for (Copy copy : ways.values()) {
          if (other) {
            wanted = bytes;
            while (wanted != 0) {
              Thread.onSpinWait();
            }
          }
          long begin = System.nanoTime();
          for (int c = 0; c < copies; c++) {
            copy.copy(FROM + at, TO + at, bytes);
            if (far) {
              at += bytes + 4096;
              at = at + bytes > REGION ? 0 : at;
            }
          }
          least[way] = Math.min(least[way], (System.nanoTime() - begin) / copies);
          way++;
        }
      }
      System.out.printf("%-9d", bytes);
      Arrays.stream(least).forEach(t -> System.out.printf("  %8d %8.1f", t, (double) bytes / t));
      System.out.println();
    }
  }

  private static void compile(Copy copy) {
    for (int call = 0; call < 30_000; call++) {
      copy.copy(FROM, TO, 256);
    }
  }

  /** The other thread. */
  private static void answer() {
    for (byte value = 0; ; value++) {
      int bytes;
      while ((bytes = wanted) == 0) {
        Thread.onSpinWait();
      }
      long sum = 0;
      for (int at = 0; at < bytes; at += LINE) {
        sum += TARGET.get(at);
        SOURCE.put(at, value);
      }
      seen = sum;
      wanted = 0;
    }
  }
}
