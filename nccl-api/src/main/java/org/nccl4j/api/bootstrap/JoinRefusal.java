package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.bootstrap.root.FailureMessage;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;

/** Sends a root the reason why a rank does not join. */
final class JoinRefusal implements ConnectionDialer.Outcome, Connection.Owner {
  /** The rank's own error is not held up for longer. */
  private static final Duration PATIENCE = Duration.ofSeconds(5);

  private static final int MAX_MESSAGE_BYTES = 64 << 10;

  private final FailureMessage failure;
  private final CountDownLatch over = new CountDownLatch(1);

  private JoinRefusal(FailureMessage failure) {
    this.failure = failure;
  }

  /** Says it, if the root answers soon; also on a thread that has been interrupted before. */
  static void say(FailureMessage failure, BootstrapId id, PeerCredentials trust) {
    boolean interrupted = Thread.interrupted();
    EventLoop loop = EventLoop.acquire();
    try {
      JoinRefusal words = new JoinRefusal(failure);
      List<InetSocketAddress> to = HostResolver.resolve(id.addresses(), Deadline.after(PATIENCE));
      ConnectionDialer dialer =
          new ConnectionDialer(loop, to, Handshake.Service.ROOT, trust, 1, words);
      loop.execute(() -> dialer.start(PATIENCE));
      // The dialer says by then what has come of it.
      if (!words.over.await(2 * PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
        loop.execute(dialer::cancel);
      }
    } catch (InterruptedException e) {
      interrupted = true;
    } catch (NcclException e) {
      DebugLog.of("BOOTSTRAP").log(Level.DEBUG, "the other ranks are not told", e);
    } finally {
      loop.release();
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  @Override
  public void reached(Connection connection) {
    connection.handTo(this, MAX_MESSAGE_BYTES);
    connection.send(failure.encode());
    connection.finish(new MessageWriter(FrameType.GOODBYE).done());
    over.countDown();
  }

  @Override
  public void failed(String reasons) {
    DebugLog.of("BOOTSTRAP").log(Level.DEBUG, "the other ranks are not notified: {0}", reasons);
    over.countDown();
  }

  @Override
  public void received(Connection connection, FrameType type, MessageReader body) {
    // The root's failure, if it had one before, does not matter here.
  }

  @Override
  public void closed(Connection connection, IOException reason) {
    // All has been said.
  }
}
