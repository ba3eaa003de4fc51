package org.nccl4j.api.launch;

import java.lang.reflect.Proxy;
import java.time.Duration;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** One thread launches at a time, and none after operations are refused. */
public final class LauncherStress {
  private static final NcclException CLOSED =
      new InvalidUsageException(ErrorId.CLOSED, "it is closed", "open it");

  /** Kernels that never fail. */
  private static final KernelCommunicator KERNELS =
      (KernelCommunicator)
          Proxy.newProxyInstance(
              LauncherStress.class.getClassLoader(),
              new Class<?>[] {KernelCommunicator.class},
              (proxy, method, arguments) -> null);

  private static final Duration DEADLINE = Duration.ofSeconds(30);

  private LauncherStress() {}

  /** Two communicators that share connections. */
  static class Shared {
    final Launcher parent = new Launcher(KERNELS, DEADLINE);
    final Launcher launcher = new Launcher(KERNELS, DEADLINE, parent);
    volatile boolean closed;
    int inside;

    int launch(Launcher by) {
      try {
        by.enter();
      } catch (NcclException refused) {
        return 0;
      }
      int alone = ++inside;
      int result = alone == 1 && !(by == launcher && closed) ? 1 : 2;
      inside--;
      by.leave();
      return result;
    }
  }

  /** Both launch. */
  @JCStressTest
  @State
  @Outcome(id = "1, 1", expect = Expect.ACCEPTABLE, desc = "One after the other.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Two at a time.")
  public static class TwoLaunch extends Shared {
    /** One launches. */
    @Actor
    public void launch(II_Result r) {
      r.r1 = launch(launcher);
    }

    /** The other launches. */
    @Actor
    public void launchParent(II_Result r) {
      r.r2 = launch(parent);
    }
  }

  /** One launches and is closed. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 1", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Launched, or refused.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "A launch after the close, or the other is refused.")
  public static class CloseBesideLaunch extends Shared {
    /** Launches. */
    @Actor
    public void launch(II_Result r) {
      r.r1 = launch(launcher);
    }

    /** Closes; the other goes on. */
    @Actor
    public void close(II_Result r) {
      closed = launcher.refuse(CLOSED, DEADLINE);
      r.r2 = launch(parent);
    }
  }
}
