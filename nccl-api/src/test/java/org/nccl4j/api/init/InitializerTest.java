package org.nccl4j.api.init;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.host.HostDevice;

class InitializerTest {
  private static final Duration LONG = Duration.ofSeconds(50);

  private static InitRequest request(Map<String, String> settings) {
    return new InitRequest("one", HostDevice.instance(), Settings.ofProcess(settings));
  }

  @Test
  void theDeadlineOfTheCreationEndsWithIt() {
    Bootstrap bootstrap = LocalBootstrap.create(1, LONG).get(0);
    assertEquals(bootstrap.exchangeEnd(), bootstrap.exchangeEnd());
    CommunicatorState made = Initializer.create(request(Map.of()), bootstrap);
    long end = bootstrap.exchangeEnd();
    assertTrue(bootstrap.exchangeEnd() - end > 0);
    made.suspend();
    made.resume();
    end = bootstrap.exchangeEnd();
    assertTrue(bootstrap.exchangeEnd() - end > 0);
    made.close(LONG);
  }

  @Test
  void whatIsMadeAnewHasOneDeadlineToo() {
    Bootstrap bootstrap = LocalBootstrap.create(1, LONG).get(0);
    bootstrap.made();
    InitRequest wrong = request(Map.of("NCCL4J_TRANSPORTS", "none such"));
    Profilers none = Profilers.open(request(Map.of()), 0, 1);
    assertThrows(InvalidArgumentException.class, () -> Initializer.again(wrong, bootstrap, none));
    assertEquals(bootstrap.exchangeEnd(), bootstrap.exchangeEnd());
  }
}
