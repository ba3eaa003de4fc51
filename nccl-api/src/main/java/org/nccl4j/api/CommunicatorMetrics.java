package org.nccl4j.api;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.observe.OperationCounts;
import org.nccl4j.device.Arguments;

/**
 * Meters of one communicator for <a href="https://micrometer.io">Micrometer</a>, which is an
 * optional dependency that only this class needs.
 *
 * <pre>{@code
 * new CommunicatorMetrics(communicator).bindTo(registry);
 * }</pre>
 *
 * <p>All meters have the tags {@code communicator} (its name) and {@code rank}; all but the errors
 * also {@code operation}, such as "all_reduce", and appear with the operation's first call:
 *
 * <ul>
 *   <li>{@code nccl4j.operations}: operations launched
 *   <li>{@code nccl4j.operation.bytes}: bytes of the data that they were called with
 *   <li>{@code nccl4j.operation.time}: from launch to end, with the wait in the stream; without
 *       operations that were captured into a graph
 *   <li>{@code nccl4j.errors}: 1 once the communicator has failed
 * </ul>
 *
 * <p>From {@link #bindTo} to {@link #close} each operation is followed in its stream by an event on
 * a GPU, whose time a thread takes some milliseconds later, and by a host function on the host
 * device; otherwise operations cost nothing more. The close of a communicator whose operations have
 * ended waits, a second at most, until they are counted. Any thread may call any method.
 */
@SuppressWarnings("exports")
public final class CommunicatorMetrics implements MeterBinder, AutoCloseable {
  private final CommunicatorState state;
  private final Map<MeterRegistry, List<Meter>> registries = new IdentityHashMap<>();
  private OperationCounts counts;

  /** Creates the metrics of one rank's communicator. */
  public CommunicatorMetrics(Communicator communicator) {
    this.state = Arguments.notNull(communicator, "communicator").state();
  }

  /**
   * Registers the meters and starts to count; has no effect if it was already called for this
   * registry.
   */
  @Override
  public synchronized void bindTo(MeterRegistry registry) {
    Arguments.notNull(registry, "registry of meters");
    if (registries.containsKey(registry)) {
      return;
    }
    List<Meter> meters = new ArrayList<>();
    registries.put(registry, meters);
    meters.add(
        FunctionCounter.builder("nccl4j.errors", state, s -> s.failure() == null ? 0 : 1)
            .description("1 once the communicator has failed")
            .tags(tags())
            .register(registry));
    if (counts == null) {
      counts = new OperationCounts(this::appeared);
      state.hooks().add(counts);
    } else {
      counts.all().forEach((operation, count) -> register(registry, meters, operation, count));
    }
  }

  private synchronized void appeared(String operation, OperationCounts.Count count) {
    registries.forEach((registry, meters) -> register(registry, meters, operation, count));
  }

  private void register(
      MeterRegistry registry, List<Meter> meters, String operation, OperationCounts.Count count) {
    Tags tags = tags().and("operation", operation);
    meters.addAll(
        List.of(
            FunctionCounter.builder("nccl4j.operations", count, c -> c.launched().sum())
                .description("Operations launched")
                .tags(tags)
                .register(registry),
            FunctionCounter.builder("nccl4j.operation.bytes", count, c -> c.bytes().sum())
                .description("Bytes of data that operations were called with")
                .baseUnit("bytes")
                .tags(tags)
                .register(registry),
            FunctionTimer.builder(
                    "nccl4j.operation.time",
                    count,
                    c -> c.ended().sum(),
                    c -> c.nanos().sum(),
                    TimeUnit.NANOSECONDS)
                .description("From an operation's launch to its end")
                .tags(tags)
                .register(registry)));
  }

  private Tags tags() {
    return Tags.of("communicator", state.name(), "rank", Integer.toString(state.rank()));
  }

  /** Stops counting, and removes the meters from their registries. */
  @Override
  public synchronized void close() {
    if (counts != null) {
      state.hooks().remove(counts);
      counts = null;
    }
    registries.forEach((registry, meters) -> meters.forEach(registry::remove));
    registries.clear();
  }
}
