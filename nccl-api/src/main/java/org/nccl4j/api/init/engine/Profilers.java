package org.nccl4j.api.init.engine;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.observe.OperationHook;
import org.nccl4j.api.observe.times.StreamTimes;
import org.nccl4j.api.registry.TransportRegistry;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceStream;

/**
 * The profilers of one rank's communicator: opened before its connections are made, closed with it.
 * Launches are reported by one thread at a time, other events by any.
 */
public final class Profilers implements OperationHook {
  private static final System.Logger LOG = DebugLog.of("PROFILE");

  private final List<Told> all;
  private final List<Told> ofLaunches;
  private final List<Told> ofEnds;
  private final List<Told> ofSteps;

  /** Null where no profiler wants ends. */
  private final StreamTimes times;

  private long number;
  private volatile boolean closed;

  private Profilers(List<Told> all) {
    this.all = List.copyOf(all);
    this.ofLaunches = wanting(Profiler.LAUNCHES);
    this.ofEnds = wanting(Profiler.ENDS);
    this.ofSteps = wanting(Profiler.PROXY_STEPS);
    this.times = ofEnds.isEmpty() ? null : new StreamTimes();
  }

  private List<Told> wanting(int event) {
    return all.stream().filter(told -> (told.mask & event) != 0).toList();
  }

  /** Opens those that want a rank of a communicator. */
  public static Profilers open(InitRequest request, int rank, int nRanks) {
    String wanted = request.settings().get(Settings.NCCL_PROFILER_PLUGIN);
    List<Told> told = new ArrayList<>();
    if (!wanted.equalsIgnoreCase(TunerAdapter.NONE)) {
      for (ProfilerProvider provider : TransportRegistry.profilers(wanted)) {
        String who = "profiler " + provider.name();
        TunerAdapter.held(who, () -> provider.open(request.name(), rank, nRanks))
            .map(profiler -> new Told(who, profiler, TunerAdapter.held(who, profiler::activation)))
            .ifPresent(told::add);
      }
    }
    told.forEach(each -> request.info(rank).tell("PROFILE", () -> "reports to " + each.name));
    return new Profilers(told);
  }

  /** Returns the hook that sees operations; empty where no profiler asks for them. */
  Optional<OperationHook> ofOperations() {
    return all.isEmpty() ? Optional.empty() : Optional.of(this);
  }

  /** Returns the consumer of proxy steps; empty where no profiler asks for them. */
  public Optional<Consumer<Profiler.ProxyStep>> ofSteps() {
    return ofSteps.isEmpty() ? Optional.empty() : Optional.of(this::stepped);
  }

  private void stepped(Profiler.ProxyStep step) {
    if (!closed) {
      ofSteps.forEach(told -> told.tell(profiler -> profiler.stepped(step)));
    }
  }

  @Override
  public void launched(String what, long count, DataType type, int root, DeviceStream stream) {
    number++;
    if (ofLaunches.isEmpty() && ofEnds.isEmpty()) {
      return;
    }
    Profiler.Operation operation =
        new Profiler.Operation(number, what, count, count * type.bytes(), root);
    ofLaunches.forEach(told -> told.tell(profiler -> profiler.launched(operation)));
    if (times != null && !stream.isCapturing()) {
      times.add(
          stream,
          nanos -> ofEnds.forEach(told -> told.tell(profiler -> profiler.ended(operation, nanos))));
    }
  }

  @Override
  public void settle(boolean all, long end) {
    if (times != null) {
      times.settle(all, end);
    }
  }

  @Override
  public void close() {
    closed = true;
    if (times != null) {
      times.close();
    }
    all.forEach(told -> told.tell(Profiler::close));
  }

  /**
   * A profiler.
   *
   * @param mask the events that it receives
   * @param broken set once it has thrown: it receives no more events, and operations continue
   */
  private record Told(String name, Profiler profiler, int mask, AtomicBoolean broken) {
    Told(String name, Profiler profiler, int mask) {
      this(name, profiler, mask, new AtomicBoolean());
    }

    void tell(Consumer<Profiler> what) {
      if (broken.get()) {
        return;
      }
      try {
        what.accept(profiler);
      } catch (RuntimeException | Error e) { // such as of a class that it lacks
        if (!broken.getAndSet(true)) {
          LOG.log(
              System.Logger.Level.WARNING,
              "the " + name + " fails and receives no more operations",
              e);
        }
      }
    }
  }
}
