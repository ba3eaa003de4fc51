package org.nccl4j.api.init.engine;

import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.OptionalDouble;
import org.nccl4j.api.init.probe.SwitchProbe;
import org.nccl4j.api.multicast.MulticastProvider;
import org.nccl4j.api.plan.algorithm.SwitchComparison;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.SwitchSpeed;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.kernel.Nvls;

/**
 * The comparison of a switch that nobody asked for with the other algorithms, by its measured
 * speed. Any thread.
 */
final class SwitchTrial {
  private final String shared;
  private final SwitchProbe probe;
  private final AlgorithmFilter filter;
  private volatile CommunicatorProfile facts;
  private volatile SwitchSpeed speed;
  private volatile boolean isNews;

  /**
   * A comparison.
   *
   * @param shared what rank 0 knows of the speed
   * @param facts about all ranks
   */
  SwitchTrial(String shared, SwitchProbe probe, AlgorithmFilter filter, CommunicatorProfile facts) {
    this.shared = shared;
    this.probe = probe;
    this.filter = filter;
    this.facts = facts;
    OptionalDouble known = SwitchProbe.known(shared);
    this.speed = known.isEmpty() ? null : new SwitchSpeed(known.getAsDouble(), /* isEarly= */ true);
  }

  /** True if all ranks measure the switch once it is made. */
  boolean isDue() {
    return SwitchProbe.isDue(shared);
  }

  /** Returns the speed; empty where it is not measured. */
  Optional<SwitchSpeed> speed() {
    return Optional.ofNullable(speed);
  }

  /** Learns of what was measured of the other algorithms. */
  void knowing(CommunicatorProfile now) {
    facts = now;
  }

  /** Takes the speed that all ranks have measured, in GB/s. */
  void measured(double gigabytes) {
    speed = new SwitchSpeed(gigabytes, /* isEarly= */ false);
  }

  /**
   * Returns why NVLS is of no use and how to measure again, or "": what rank 0 finds, on all ranks.
   * Keeps a speed that was measured.
   *
   * @param exchange among all ranks
   */
  String slowness(Nvls nvls, MulticastProvider.Exchange exchange) {
    String slow = new SwitchComparison(facts, nvls, filter).slowness(speed);
    isNews = isDue() && !probe.isInDoubt();
    String remedy =
        isDue()
            ? probe.keep(speed.gigabytes(), !slow.isEmpty())
            : slow.isEmpty() ? "" : probe.again();
    String mine = slow + remedy;
    return new String(
        exchange.allGather(mine.getBytes(StandardCharsets.UTF_8)).get(0), StandardCharsets.UTF_8);
  }

  /** True if the last {@link #slowness} is worth a warning: this process has not warned of it. */
  boolean isNews() {
    return isNews;
  }

  /** Returns the speed for the log, as the end of a sentence; "" where there is none. */
  String text() {
    return speed().map(at -> ", at %.0f GB/s".formatted(at.gigabytes())).orElse("");
  }
}
