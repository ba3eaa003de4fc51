package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;

class RankHandleTest {
  @Test
  void bytesAreUnits() {
    assertEquals(Long.MAX_VALUE / 8 * 8, RankHandle.bytes(Long.MAX_VALUE / 8, 8));
  }

  /** A device of the host without streams. */
  private static final class Streamless extends Device {
    private static RuntimeException absent() {
      return new InvalidUsageException(ErrorId.USAGE, "there are no streams", "none");
    }

    @Override
    public Kind kind() {
      return Kind.HOST;
    }

    @Override
    public int index() {
      return 0;
    }

    @Override
    public String name() {
      return "streamless";
    }

    @Override
    public DeviceMemory allocate(long bytes) {
      throw absent();
    }

    @Override
    public DeviceMemory memAlloc(long bytes) {
      throw absent();
    }

    @Override
    public DeviceMemory wrap(long address, long bytes) {
      throw absent();
    }

    @Override
    public DeviceMemory wrap(ByteBuffer direct) {
      throw absent();
    }

    @Override
    public DeviceStream createStream() {
      throw absent();
    }

    @Override
    public DeviceEvent createEvent() {
      throw absent();
    }
  }

  /** The other ranks are not left with a communicator that this one cannot use. */
  @Test
  void aCommunicatorWhoseHandleFailsIsClosed() {
    Communicator made = Communicator.initAll(List.of(Devices.host())).get(0);
    Config config = new Config(/* blocking= */ true, CommunicatorConfig.defaults());
    RankHandle handle =
        RankHandle.of(Place.of(new Streamless()), config, CompletableFuture.completedFuture(made));
    CompletionException failure =
        assertThrows(CompletionException.class, () -> handle.making().join());
    assertEquals(ErrorId.USAGE, ((NcclException) failure.getCause()).id());
    NcclException use = assertThrows(NcclException.class, () -> made.split(0, 0));
    assertEquals(ErrorId.CLOSED, use.id());
    handle.close(/* abort= */ false);
  }

  /** On a device that is lost, say: the first step of the close fails. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aCloseThatFailsFreesTheHandlesStream(boolean abort) {
    Communicator made = Communicator.initAll(List.of(Devices.host())).get(0);
    Config config = new Config(/* blocking= */ true, CommunicatorConfig.defaults());
    RankHandle handle =
        RankHandle.of(Place.of(Devices.host()), config, CompletableFuture.completedFuture(made));
    handle.making().join();
    DeviceStream stream = handle.stream(0);
    Thread own = Thread.currentThread(); // another test's may close a communicator meanwhile
    Logger calls = Logger.getLogger("org.nccl4j.CALL");
    calls.setLevel(Level.FINE);
    calls.setFilter(
        line -> {
          if (Thread.currentThread() == own && line.getMessage().endsWith("calls close")) {
            throw new IllegalStateException("no room for a line");
          }
          return false;
        });
    try {
      assertThrows(IllegalStateException.class, () -> handle.close(abort));
    } finally {
      calls.setFilter(null);
      calls.setLevel(null);
    }
    assertFalse(Leases.of(stream).isOpen());
  }

  /** A size_t above the greatest signed number, a product of 2^63, and one past 64 bits. */
  @ParameterizedTest
  @ValueSource(longs = {-1, 1L << 60, 1L << 61, Long.MAX_VALUE})
  void countsThatNoMemoryHasAreRefused(long count) {
    assertThrows(NcclException.class, () -> RankHandle.bytes(count, 8));
  }
}
