package org.nccl4j.device.host.kernel;

import java.time.Duration;
import java.util.Collections;
import java.util.List;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.Tree;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** Kernels that share connections run one at a time, and are counted when they have ended. */
public final class KernelSerializerStress {
  private static final NcclException BROKEN =
      new InternalErrorException("something broke", "mend it", null);

  private static final KernelCommunicatorSpec SPEC = spec();

  private KernelSerializerStress() {}

  private static KernelCommunicatorSpec spec() {
    List<Connection> none = Collections.nCopies(1, null);
    return new KernelCommunicatorSpec(
        "serializer",
        0,
        1,
        new ConnectionLayout(4096, 4096, 4096),
        none,
        none,
        List.of(new int[] {0}),
        List.of(new Tree(-1, List.of()), new Tree(-1, List.of())),
        1,
        Progress.NONE,
        Duration.ofSeconds(30));
  }

  /** Two communicators that share connections. */
  static class Shared {
    final SpinWait waiter =
        new SpinWait("serializer", 0, Duration.ofSeconds(30), true, Progress.NONE);
    final ConnectionTable first = new ConnectionTable(SPEC);
    final ConnectionTable second = new ConnectionTable(SPEC, first, List.of(0), "second");
    final KernelSerializer serializer = new KernelSerializer(waiter, Progress.NONE, first);
    int done;

    void run(ConnectionTable ends, long ticket) {
      try {
        serializer.run(
            (send, recv) -> done = 2 * done + 1 + (int) ticket, ends, null, null, ticket, 0);
      } catch (NcclException failed) {
        return; // before its turn, or at it
      }
    }
  }

  /** Kernels of two streams. */
  @JCStressTest
  @State
  @Outcome(
      id = {"4, 1", "4, 2"},
      expect = Expect.ACCEPTABLE,
      desc = "In order.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Out of order, or counted before the end.")
  public static class TwoKernels extends Shared {
    /** The first kernel; that of the other communicator is counted once it has ended. */
    @Actor
    public void first(II_Result r) {
      run(second, 0);
      r.r2 = serializer.ended(first) == 0 ? 1 : done == 4 ? 2 : 3;
    }

    /** The second kernel. */
    @Actor
    public void second() {
      run(first, 1);
    }

    /** Looks. */
    @Arbiter
    public void look(II_Result r) {
      r.r1 = serializer.ended(first) == 1 && serializer.ended(second) == 1 ? done : -1;
    }
  }

  /** The communicator fails beside two kernels. */
  @JCStressTest
  @State
  @Outcome(
      id = {"1, 1", "1, 2"},
      expect = Expect.ACCEPTABLE,
      desc = "All turns have passed.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "A turn is lost, or passed while its kernel ran.")
  public static class FailureBesideKernels extends Shared {
    volatile int inside;

    private void inside(long ticket) {
      try {
        serializer.run(
            (send, recv) -> {
              inside = 1;
              inside = 0;
            },
            first,
            null,
            null,
            ticket,
            0);
      } catch (NcclException failed) {
        return; // before its turn, or at it
      }
    }

    /** The first kernel. */
    @Actor
    public void first() {
      inside(0);
    }

    /** Fails, and the second kernel; what kernels use is freed once both have ended. */
    @Actor
    public void second(II_Result r) {
      waiter.fail(BROKEN);
      inside(1);
      r.r2 = !serializer.reached(2) ? 1 : inside == 0 ? 2 : 3;
    }

    /** Looks. */
    @Arbiter
    public void look(II_Result r) {
      r.r1 = serializer.reached(2) ? 1 : 0;
    }
  }
}
