package org.nccl4j.testkit;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.Profiler.Operation;
import org.nccl4j.api.spi.Profiler.ProxyStep;
import org.nccl4j.api.spi.Profiler.StepState;
import org.nccl4j.api.spi.ProfilerProvider;

/**
 * The contract of every profiler. Its author extends this class, implements its creation, and runs
 * the checks.
 */
public abstract class ProfilerContract {
  private static final int KNOWN = Profiler.LAUNCHES | Profiler.ENDS | Profiler.PROXY_STEPS;
  private static final int SLOTS = 8;

  /** Called by subclasses. */
  protected ProfilerContract() {}

  /** A new provider. */
  protected abstract ProfilerProvider provider();

  /** The name of a communicator that it wants to be told of, at rank 0. */
  protected String communicator() {
    return "contract";
  }

  /** All checks. */
  public final List<Check> checks() {
    return List.of(
        new Check("its name is of at most 32 letters, digits and hyphens", this::name),
        new Check("its event mask is valid and constant", this::mask),
        new Check("it takes launches and ends in any order of streams", this::operations),
        new Check("it takes steps of two connections from two threads", this::steps),
        new Check("profilers of several ranks are independent", this::independent),
        new Check("it accepts operations that end after close", this::lateEnds));
  }

  private void name() {
    String name = provider().name();
    Expect.that(name.matches("[A-Za-z0-9-]{1,32}"), "the name is '%s'", name);
    Expect.equal(name, provider().name(), "the name of another instance");
  }

  private Profiler open() {
    Optional<Profiler> profiler = provider().open(communicator(), 0, 2);
    Expect.that(profiler.isPresent(), "it does not want communicator '%s'", communicator());
    return profiler.get();
  }

  private void mask() {
    try (Profiler profiler = open()) {
      int mask = profiler.activation();
      Expect.that((mask & ~KNOWN) == 0, "its mask is %d", mask);
      Expect.equal(mask, profiler.activation(), "its mask when asked again");
    }
  }

  private static Operation operation(long number) {
    return new Operation(number, "all_reduce", 16, 64, 0);
  }

  private void operations() {
    try (Profiler profiler = open()) {
      for (long n = 1; n <= 100; n++) {
        profiler.launched(operation(n));
      }
      for (long n = 100; n >= 1; n--) {
        profiler.ended(operation(n), System.nanoTime());
      }
    }
  }

  private static ProxyStep step(int peer, boolean sends, long number, StepState state) {
    int bytes = sends || state != StepState.POSTED ? 4096 : 0;
    return new ProxyStep(0, peer, 0, 0, sends, number, bytes, state);
  }

  /** Eight are under way at a time, as many as a connection has slots. */
  private void steps() {
    try (Profiler profiler = open()) {
      CompletableFuture<Void> other =
          CompletableFuture.runAsync(() -> send(profiler), task -> new Thread(task).start());
      for (long n = 0; n < 100; n++) {
        profiler.stepped(step(1, false, n, StepState.POSTED));
        if (n >= SLOTS - 1) {
          profiler.stepped(step(1, false, n - SLOTS + 1, StepState.RECEIVED));
          profiler.stepped(step(1, false, n - SLOTS + 1, StepState.DONE));
        }
      }
      other.orTimeout(10, TimeUnit.SECONDS).join();
    }
  }

  private static void send(Profiler profiler) {
    for (long n = 0; n < 100; n++) {
      profiler.stepped(step(2, true, n, StepState.FILLED));
      profiler.stepped(step(2, true, n, StepState.POSTED));
      profiler.stepped(step(2, true, n, StepState.DONE));
    }
  }

  private void independent() {
    Profiler first = open();
    try (Profiler second = open()) {
      first.close();
      second.launched(operation(1));
      second.ended(operation(1), System.nanoTime());
      second.stepped(step(1, true, 0, StepState.FILLED));
    }
  }

  private void lateEnds() {
    Profiler profiler = open();
    profiler.launched(operation(1));
    profiler.stepped(step(1, true, 0, StepState.FILLED));
    profiler.stepped(step(1, true, 0, StepState.POSTED));
    profiler.close();
    profiler.ended(operation(1), System.nanoTime());
    profiler.stepped(step(1, true, 0, StepState.DONE));
    profiler.close();
  }
}
