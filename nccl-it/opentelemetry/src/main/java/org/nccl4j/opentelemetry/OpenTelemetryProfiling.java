package org.nccl4j.opentelemetry;

import io.opentelemetry.api.GlobalOpenTelemetry;
import java.util.Optional;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.ProfilerProvider;

/**
 * Makes a span of each operation of every communicator that is created after the program, or
 * OpenTelemetry's Java agent, has set {@link GlobalOpenTelemetry}. The tracer's name is {@code
 * org.nccl4j}.
 *
 * <p>A span begins when the rank launches the operation and ends when the operation ends in its
 * stream. Its parent is the span that is current on the launching thread. Its name is {@code nccl}
 * and the operation's name as in nccl-tests, such as {@code nccl all_reduce}; its attributes are
 *
 * <ul>
 *   <li>{@code nccl.communicator}, {@code nccl.rank}, {@code nccl.ranks}: who launched it
 *   <li>{@code nccl.operation}, {@code nccl.operation.number}: the operation, and its number among
 *       those of the rank, from 1; the spans of one collective have the same communicator and
 *       number on all ranks that make the same calls
 *   <li>{@code nccl.count}, {@code nccl.bytes}, {@code nccl.root}: as in the call
 *   <li>{@code nccl.end}: {@code "unknown"} where the end was not seen: the operation was captured
 *       into a graph, or the communicator was closed first
 * </ul>
 *
 * <p>An operation costs a span, and in its stream an event on a GPU and a host function on the host
 * device, so sample the spans of programs with many small operations. On a GPU spans end some
 * milliseconds after their operations, with the time of these. To turn it off, leave the artifact
 * out, or name another profiler in NCCL_PROFILER_PLUGIN.
 */
public final class OpenTelemetryProfiling implements ProfilerProvider {
  static final String TRACER = "org.nccl4j";

  /** Called by the service loader. */
  public OpenTelemetryProfiling() {}

  @Override
  public String name() {
    return "opentelemetry";
  }

  /**
   * A profiler; empty if the program has not set OpenTelemetry: to ask for it then would set it to
   * one that does nothing, and the program could not set it any more.
   */
  @Override
  public Optional<Profiler> open(String communicator, int rank, int nRanks) {
    return GlobalOpenTelemetry.isSet()
        ? Optional.of(
            new SpanProfiler(GlobalOpenTelemetry.getTracer(TRACER), communicator, rank, nRanks))
        : Optional.empty();
  }
}
