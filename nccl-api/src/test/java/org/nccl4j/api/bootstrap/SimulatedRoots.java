package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.nio.channels.ServerSocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionListener;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.api.bootstrap.root.RankState;
import org.nccl4j.api.observe.SimulatedRing;
import org.nccl4j.api.observe.flight.StateMessage;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.os.KernelRandom;

/**
 * Roots as an observer sees them: equal blocks of ranks that form a ring, of which the first of
 * each block is silent. They answer a second after all that are open have been asked.
 */
final class SimulatedRoots implements AutoCloseable, Connection.Owner {
  private static final Duration PATIENCE = Duration.ofSeconds(1);
  private static final int NONE = -1;

  private final EventLoop loop = EventLoop.acquire();
  private final List<BootstrapId> ids = new ArrayList<>();
  private final List<ConnectionListener> listeners = new ArrayList<>();
  private final int nRanks;
  private final SimulatedRing ring;

  /** Those who ask, by the number of the root that they ask; owned by the loop. */
  private final Map<Integer, Connection> observers = new HashMap<>();

  /** Number of roots; owned by the loop. */
  private int open;

  /** The root that gives no answer to its next question, or {@link #NONE}; owned by the loop. */
  private int ignoring = NONE;

  /** The root that gives no answer to the question that is being asked, likewise. */
  private int ignored = NONE;

  SimulatedRoots(int count, int nRanks, SimulatedRing ring) {
    this.nRanks = nRanks;
    this.ring = ring;
    this.open = count;
    for (int root = 0; root < count; root++) {
      byte[] secret = KernelRandom.bytes(BootstrapId.SECRET_BYTES);
      ServerSocketChannel socket =
          ListeningSocket.open("a test", InetAddress.getLoopbackAddress(), PortRange.ANY);
      int number = root;
      ConnectionListener listener =
          new ConnectionListener(
              loop,
              socket,
              Handshake.Service.ROOT,
              PeerCredentials.in(secret),
              ConnectionListener.PATIENCE,
              (connection, type, first) -> asked(number, connection));
      InetSocketAddress address =
          new InetSocketAddress(InetAddress.getLoopbackAddress(), ListeningSocket.port(socket));
      ids.add(new BootstrapId(false, List.of(address), secret));
      listeners.add(listener);
      loop.execute(listener::start);
    }
  }

  List<BootstrapId> ids() {
    return ids;
  }

  private void asked(int root, Connection observer) {
    observer.handTo(this, RankState.MAX_MESSAGE_BYTES);
    observers.put(root, observer);
    if (root == ignoring) {
      ignoring = NONE;
      ignored = root;
    }
    if (observers.size() == open) {
      Map<Integer, Connection> all = Map.copyOf(observers);
      observers.clear();
      int silent = ignored;
      ignored = NONE;
      loop.after(
          PATIENCE,
          () ->
              all.forEach(
                  (each, asking) -> {
                    if (each != silent) {
                      answer(each, asking);
                    }
                  }));
    }
  }

  private void answer(int root, Connection observer) {
    int block = nRanks / ids.size();
    for (int rank = root * block; rank < (root + 1) * block; rank++) {
      boolean silent = rank == root * block;
      byte[] state = silent ? new byte[0] : StateMessage.encode(List.of(ring.report(rank)));
      observer.send(
          new MessageWriter(FrameType.STATE, state.length + 256)
              .number(rank)
              .text("host" + rank, 256)
              .number((long) rank)
              .number(silent ? 0 : 1)
              .bytes(state)
              .done());
    }
    observer.finish(new MessageWriter(FrameType.STATES_END).number(nRanks).number(1).done());
  }

  @Override
  public void received(Connection observer, FrameType type, MessageReader body)
      throws ProtocolException {
    throw new ProtocolException("an observer sent " + type);
  }

  @Override
  public void closed(Connection observer, IOException reason) {}

  /** Lets a root give no answer to its next question. */
  void ignoreNext(int root) {
    loop.execute(() -> ignoring = root);
  }

  /** Ends a root. */
  void close(int root) {
    loop.execute(
        () -> {
          open--;
          listeners.get(root).close();
        });
  }

  @Override
  public void close() {
    listeners.forEach(listener -> loop.execute(listener::close));
    loop.release();
  }
}
