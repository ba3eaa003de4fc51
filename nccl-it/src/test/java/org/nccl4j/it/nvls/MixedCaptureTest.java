package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Groups in whose streams a graph would be captured from a part of the group alone. */
@Timeout(600)
class MixedCaptureTest {
  private static final long MARK_BYTES = 125 << 10; // no other allocation has this size

  private static final String CAPTURED = "being captured";
  private static final String NOT = "not being captured";

  @TempDir private Path folder;

  private static String refused(String of, String by, String capture, String later, String its) {
    return ("%s: CAPTURE in a group of rank %s on Fake GPU %s the stream of the first %s is %s, and"
            + " that of a later %s is %s")
        .formatted(of, by, by, later, capture, later, its);
  }

  @Test
  void isRefusedBeforeAnythingIsLaunched() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran = FakeGpuProcess.in(folder).run(Map.of("NCCL_NVLS_ENABLE", "0"), Groups.class);
    String other = "being captured into another graph";
    assertEquals(
        List.of(
            refused("the first", "0", CAPTURED, "all_reduce", NOT),
            refused("the second", "0", NOT, "all_reduce", CAPTURED),
            refused("two graphs", "0", CAPTURED, "all_reduce", other),
            refused("the third stream", "0", CAPTURED, "all_reduce", NOT),
            refused("empty sends", "0", CAPTURED, "send", NOT),
            refused("one rank of two", "1", CAPTURED, "all_reduce", NOT),
            "one graph: launched",
            "an empty collective: launched",
            "no graph: launched"),
        ran.output()
            .lines()
            .filter(line -> line.contains(": CAPTURE ") || line.endsWith(": launched"))
            .map(line -> line.replaceFirst(": a graph would .*", ""))
            .map(line -> line.replaceFirst("of communicator \\S+ ", ""))
            .toList(),
        ran.output());
    List<Long> launches = new ArrayList<>();
    for (String call : ran.calls()) {
      if (call.equals("cuMemAlloc_v2(" + MARK_BYTES + ")")) {
        launches.add(0L);
      } else if (call.startsWith("cuLaunchKernel") && !launches.isEmpty()) {
        launches.set(launches.size() - 1, launches.get(launches.size() - 1) + 1);
      }
    }
    assertEquals(List.of(0L, 5L), launches.subList(0, 2), "launches of refused groups, and others");
    assertEquals(0, ran.count("misuse"), ran.output());
  }

  /** One thread that calls for two ranks. */
  static final class Groups {
    private static final int COUNT = 16;

    private final List<Device> devices = List.copyOf(Devices.cuda().list());
    private final List<Communicator> ranks = Communicator.initAll(devices);
    private final List<CudaStream> a = streams();
    private final List<CudaStream> b = streams();
    private final List<CudaStream> c = streams();
    private final List<DeviceMemory> memory = memories();

    private List<CudaStream> streams() {
      return devices.stream().map(device -> (CudaStream) device.createStream()).toList();
    }

    private List<DeviceMemory> memories() {
      return devices.stream().map(device -> device.allocate(4 * COUNT)).toList();
    }

    /** No arguments. */
    public static void main(String[] arguments) {
      new Groups().run();
    }

    private void run() {
      Group.run( // connects the ranks
          () -> {
            sums(0, a.get(0));
            sums(1, a.get(1));
          });
      mark();
      a.get(0).beginCapture();
      report("the first", () -> sums(0, a.get(0), b.get(0)));
      report("the second", () -> sums(0, b.get(0), a.get(0)));
      b.get(0).beginCapture();
      report("two graphs", () -> sums(0, a.get(0), b.get(0)));
      b.get(0).endCapture().close();
      join(a.get(0), b.get(0));
      report("the third stream", () -> sums(0, a.get(0), b.get(0), a.get(0), c.get(0)));
      report("empty sends", () -> sends(a.get(0), c.get(0)));
      join(b.get(0), a.get(0));
      a.get(0).endCapture().close();
      a.get(1).beginCapture();
      report(
          "one rank of two",
          () -> {
            sums(0, a.get(0), b.get(0));
            sums(1, a.get(1), b.get(1));
          });
      a.get(1).endCapture().close();
      mark();
      a.get(0).beginCapture();
      join(a.get(0), b.get(0));
      report("one graph", () -> sums(0, a.get(0), b.get(0)));
      join(b.get(0), a.get(0));
      report(
          "an empty collective",
          () -> {
            sums(0, a.get(0));
            sum(0, 0, c.get(0));
          });
      a.get(0).endCapture().close();
      report("no graph", () -> sums(0, a.get(0), b.get(0)));
      mark();
      ranks.forEach(Communicator::abort);
      ranks.forEach(Communicator::close);
    }

    private void mark() {
      devices.get(0).allocate(MARK_BYTES).close();
    }

    /** Has a stream wait for what is in another one, and so join its capture. */
    private static void join(CudaStream first, CudaStream other) {
      try (DeviceEvent event = first.device().createEvent()) {
        first.record(event);
        other.await(event);
      }
    }

    private void sums(int rank, CudaStream... into) {
      for (CudaStream stream : into) {
        sum(rank, COUNT, stream);
      }
    }

    private void sum(int rank, int count, CudaStream into) {
      DeviceMemory both = memory.get(rank);
      ranks.get(rank).allReduce(both, both, count, DataType.FLOAT32, RedOp.SUM, into);
    }

    private void sends(CudaStream... into) {
      for (CudaStream stream : into) {
        ranks.get(0).send(memory.get(0), 0, DataType.FLOAT32, 1, stream);
      }
    }

    private static void report(String what, Runnable calls) {
      try {
        Group.run(calls);
        System.out.println(what + ": launched");
      } catch (InvalidUsageException e) {
        System.out.println(what + ": " + e.id() + " " + e.problem());
      }
    }
  }
}
