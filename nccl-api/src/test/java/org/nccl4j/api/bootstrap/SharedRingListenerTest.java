package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.os.KernelRandom;

/** Ranks find each other's listening sockets. */
class SharedRingListenerTest {
  private static final PeerCredentials TRUST = PeerCredentials.in(KernelRandom.bytes(16));

  private final LeftBehind.Earlier earlier = LeftBehind.Earlier.now();

  private final BlockingQueue<Object> outcome = new LinkedBlockingQueue<>();
  private final BlockingQueue<Integer> accepted = new LinkedBlockingQueue<>();

  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    earlier.nothingElse();
  }

  /** Two hosts may have the same address, such as that of a bridge to their containers. */
  @Test
  void anAddressOfAnotherRanksProcessIsLeftForTheNext() throws Exception {
    EventLoop loop = EventLoop.acquire();
    InetAddress wrong = InetAddress.getByName("127.0.0.2");
    InetAddress right = InetAddress.getByName("127.0.0.3");
    SharedRingListener one = listener(loop, wrong, 0);
    SharedRingListener other = listener(loop, right, 1);
    List<InetSocketAddress> addresses =
        List.of(
            new InetSocketAddress(wrong, one.number()),
            new InetSocketAddress(right, other.number()));
    ConnectionDialer dialer =
        new ConnectionDialer(loop, addresses, Handshake.Service.RING, TRUST, 1, new Caller())
            .naming(SharedRingListener.request(1));
    loop.execute(() -> dialer.start(Ranks.LONG));
    assertEquals("reached", Ranks.next(outcome));
    assertEquals(1, Ranks.next(accepted));
    one.leave(0);
    other.leave(1);
    loop.release();
  }

  private SharedRingListener listener(EventLoop loop, InetAddress host, int rank) {
    return SharedRingListener.join(
        loop,
        TRUST,
        host,
        PortRange.ANY,
        rank,
        (connection, type, first) -> {
          accepted.add(rank);
          connection.close();
        });
  }

  private final class Caller implements ConnectionDialer.Outcome {
    @Override
    public void reached(Connection connection) {
      connection.finish(new MessageWriter(FrameType.RING_HELLO).number(1).number(0).done());
      outcome.add("reached");
    }

    @Override
    public void failed(String reasons) {
      outcome.add(reasons);
    }
  }
}
