package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.transport.net.socket.link.Resumption.Position;
import org.nccl4j.transport.net.socket.link.Resumption.Resumed;

/** Sockets that take over, of which some die before both ends know where to go on. */
@Timeout(600)
class ResumptionTest {
  private static final Duration BOUND = Duration.ofSeconds(10);
  private static final Position HERE = new Position(7, 11, 5);
  private static final Position THERE = new Position(9, -1, 9);

  /** One end's sockets, in the order in which they come. */
  private static final class Sockets implements SpareSockets {
    private final boolean dials;
    private final Queue<DataChannel> left = new ArrayDeque<>();

    Sockets(boolean dials) {
      this.dials = dials;
    }

    @Override
    public boolean isOffered(int index) {
      return !dials && !left.isEmpty();
    }

    @Override
    public DataChannel next(int index) {
      return left.poll();
    }

    @Override
    public boolean dials() {
      return dials;
    }
  }

  private final List<SocketChannel> opened = new ArrayList<>();
  private final Sockets dialled = new Sockets(true);
  private final Sockets accepted = new Sockets(false);
  private ServerSocketChannel server;
  private long now;
  private final Resumption dialling = new Resumption(dialled, 0, BOUND, () -> now);
  private final Resumption accepting = new Resumption(accepted, 0, BOUND, () -> now);

  @BeforeEach
  void listen() throws Exception {
    server =
        ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
  }

  @AfterEach
  void close() throws Exception {
    for (SocketChannel each : opened) {
      each.close();
    }
    server.close();
  }

  /**
   * Dials a socket.
   *
   * @param arrives whether the other end has it, and not somebody who says nothing
   */
  private DataChannel dial(boolean arrives) throws Exception {
    SocketChannel near = SocketChannel.open(server.getLocalAddress());
    SocketChannel far = server.accept();
    for (SocketChannel each : List.of(near, far)) {
      each.configureBlocking(false);
      opened.add(each);
    }
    DataChannel socket = DataChannel.plain(near);
    dialled.left.add(socket);
    if (arrives) {
      accepted.left.add(DataChannel.plain(far));
    }
    return socket;
  }

  private static Resumed poll(Resumption end, Position here) {
    return end.poll(() -> here);
  }

  @Test
  void aSocketOnWhichNothingComesMakesWayForAnother() throws Exception {
    DataChannel dead = dial(false);
    DataChannel second = dial(true);
    assertNull(poll(dialling, HERE));
    now = BOUND.toNanos() / 4;
    assertNull(poll(dialling, HERE));
    assertTrue(dead.socket().isOpen());
    now++;
    assertNull(poll(dialling, HERE));
    assertFalse(dead.socket().isOpen());
    Resumed here = null;
    Resumed there = null;
    while (here == null || there == null) {
      here = here == null ? poll(dialling, HERE) : here;
      there = there == null ? poll(accepting, THERE) : there;
    }
    assertEquals(second, here.socket());
    assertEquals(THERE, here.there());
    assertEquals(HERE, there.there());
  }

  /** The end that dials tries another; this one takes it once it comes. */
  @Test
  void theOtherEndWaits() throws Exception {
    dial(true);
    assertNull(poll(accepting, THERE));
    now = BOUND.toNanos();
    assertNull(poll(accepting, THERE));
    assertEquals(2, opened.stream().filter(SocketChannel::isOpen).count());
  }
}
