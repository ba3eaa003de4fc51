package org.nccl4j.api.registry;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;

import java.lang.reflect.Method;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.ProxyHandler;

class GuardedHandlerTest {
  /** The default would keep the call from the plug-in. */
  @Test
  void everyCallReachesThePlugin() {
    for (Method call : ProxyHandler.class.getMethods()) {
      assertDoesNotThrow(
          () -> GuardedHandler.class.getDeclaredMethod(call.getName(), call.getParameterTypes()));
    }
  }
}
