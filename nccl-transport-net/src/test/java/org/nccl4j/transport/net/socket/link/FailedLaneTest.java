package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** A lane that an unexpected error stops: no other socket can take over. */
@Timeout(600)
class FailedLaneTest {
  private static final int BYTES = 1 << 20;

  private static NetContext context(int rank) {
    Map<String, String> settings =
        Map.of(
            "NCCL_SOCKET_IFNAME", "lo", "NCCL_SOCKET_NTHREADS", "1", "NCCL_NSOCKS_PERTHREAD", "1");
    return new NetContext() {
      @Override
      public int rank() {
        return rank;
      }

      @Override
      public byte[] secret() {
        return new byte[16];
      }

      @Override
      public Optional<String> setting(String name) {
        return Optional.ofNullable(settings.get(name));
      }
    };
  }

  @Test
  void itsSenderThrowsTheError() {
    SocketNetProvider provider = new SocketNetProvider();
    try (Net near = provider.open(context(0));
        Net far = provider.open(context(1));
        NetListener listener = far.listen(0);
        DeviceMemory memory = HostDevice.instance().allocate(BYTES)) {
      NetSender sender = near.connect(0, listener.handle());
      NetReceiver receiver = null;
      while (!sender.isConnected() | receiver == null) {
        receiver = receiver == null ? listener.accept() : receiver;
        Thread.yield();
      }
      // Registered for too few sockets, so that the lane finds no buffer.
      NetRequest request = sender.isend(new SocketMemory(memory, 1), 0, BYTES, 1);
      InternalErrorException error =
          assertThrows(
              InternalErrorException.class,
              () -> {
                long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(300);
                while (!request.test(null)) {
                  assertTrue(System.nanoTime() - end < 0, "it waits without end");
                  Thread.yield();
                }
              });
      assertTrue(error.problem().contains("a data socket failed"), error.problem());
    }
  }
}
