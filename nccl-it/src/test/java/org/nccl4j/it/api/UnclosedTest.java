package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;

/** Communicators that a program makes and forgets. */
@Timeout(600)
final class UnclosedTest {
  private final Logger logger = Logger.getLogger("org.nccl4j");
  private final Queue<String> said = new ConcurrentLinkedQueue<>();
  private final Handler handler =
      new Handler() {
        @Override
        public void publish(LogRecord log) {
          String message = String.valueOf(log.getMessage());
          if (message.contains("garbage collected before close") && message.contains("unclosed-")) {
            said.add(message);
          }
        }

        @Override
        public void flush() {
          // Nothing is buffered.
        }

        @Override
        public void close() {
          // Nothing is open.
        }
      };

  private static Communicator make(String name) {
    CommunicatorConfig config = CommunicatorConfig.defaults().withName(name);
    return Communicator.initAll(List.of(Devices.host()), config).get(0);
  }

  /** Of a communicator only what has options is kept; it is the same communicator. */
  private static Communicator keep() {
    return make("unclosed-kept").withOptions(CallOptions.defaults());
  }

  private static void lose() {
    make("unclosed-closed").close();
    make("unclosed-lost");
  }

  @Test
  void areNamedWithThePlaceWhereTheyWereMade() throws Exception {
    logger.addHandler(handler);
    try (Communicator kept = keep()) {
      lose();
      while (said.isEmpty()) {
        System.gc();
        Thread.sleep(10);
      }
      String message = said.remove();
      assertTrue(message.startsWith("communicator unclosed-lost of rank 0 of 1"), message);
      assertTrue(message.contains("UnclosedTest.make(UnclosedTest.java:"), message);
      assertTrue(said.isEmpty(), said::toString);
      assertEquals("unclosed-kept", kept.name());
    } finally {
      logger.removeHandler(handler);
    }
  }
}
