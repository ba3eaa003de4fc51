package org.nccl4j.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.device.InvalidArgumentException;

class CommunicatorConfigTest {
  private static final CommunicatorConfig DEFAULTS = CommunicatorConfig.defaults();

  private static void check(
      Setting<Duration> setting, Function<Duration, CommunicatorConfig> with) {
    UnaryOperator<Duration> read =
        given -> Settings.ofProcess(with.apply(given).settings()).get(setting);
    assertEquals(Duration.ofMillis(1), read.apply(Duration.ofMillis(1)));
    assertEquals(Duration.ofDays(365), read.apply(Duration.ofDays(365)));
    for (Duration longer :
        List.of(
            Duration.ofDays(366),
            Duration.ofMillis(Long.MAX_VALUE),
            Duration.ofSeconds(Long.MAX_VALUE),
            ChronoUnit.FOREVER.getDuration())) {
      assertEquals(Duration.ofDays(365), read.apply(longer), longer.toString());
    }
    for (Duration shorter :
        List.of(
            Duration.ZERO,
            Duration.ofNanos(999_999),
            Duration.ofMillis(-1),
            Duration.ofSeconds(Long.MIN_VALUE))) {
      InvalidArgumentException e =
          assertThrows(InvalidArgumentException.class, () -> with.apply(shorter));
      assertTrue(e.problem().contains(shorter.toString()), e.problem());
    }
  }

  @Test
  void deadlinesAreAtMostAYear() {
    check(Settings.NCCL4J_TIMEOUT, DEFAULTS::withOperationTimeout);
    check(Settings.NCCL4J_INIT_TIMEOUT, DEFAULTS::withInitTimeout);
  }
}
