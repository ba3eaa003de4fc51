package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;

/** Lanes whose packets are lost one way: the sender, which is to dial another, hears of it. */
@Timeout(600)
class BrokenLaneTest {
  private static final Duration SILENCE = Duration.ofMinutes(10);
  private static final Duration BOUND = Duration.ofSeconds(10);
  private static final int BYTES = 100;

  /** More than a socket holds of which nobody reads. */
  private static final int MUCH = 64 << 20;

  /** A link whose lanes are neither given up nor replaced. */
  private static final class Link implements DataSocket.Owner {
    @Override
    public void fail(IOException cause, String attempts) {
      throw new AssertionError(attempts, cause);
    }

    @Override
    public void replaced(int index, DataChannel by, String why, long again, long nanos) {
      throw new AssertionError("nothing has been dialled");
    }
  }

  @Test
  void theReceiverGoesOnToReportWhereItWaits() throws IOException {
    try (ServerSocketChannel server = ServerSocketChannel.open();
        DeviceMemory memory = HostDevice.instance().allocate(BYTES)) {
      server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      SocketChannel from = SocketChannel.open(server.getLocalAddress());
      try (SocketChannel to = server.accept()) {
        to.configureBlocking(false);
        DataSocket lane = new DataSocket(1, DataChannel.plain(to), false, SILENCE);
        assertFalse(lane.owesReport(0), "it waits for nothing");
        lane.post(new SocketMemory(memory, 2), 0, BYTES);
        assertFalse(lane.owesReport(0));
        from.close();
        assertEquals(0, lane.progress());
        assertTrue(lane.look(new Link(), new NoSpareSockets(), false, BOUND), "it is broken");
        assertTrue(lane.owesReport(SILENCE.toNanos() / 2));
        assertFalse(lane.owesReport(SILENCE.toNanos() / 2));
        assertTrue(lane.owesReport(SILENCE.toNanos() * 3 / 4));
        assertEquals(0, lane.place());
      }
    }
  }

  /** Says that another socket is prepared. */
  private static final class Prepared implements SpareSockets {
    private int asked;

    @Override
    public boolean isOffered(int index) {
      return false;
    }

    @Override
    public boolean prepare(int index) {
      asked++;
      return true;
    }

    @Override
    public DataChannel next(int index) {
      return null;
    }
  }

  /** The receiver has all that the socket has taken, and no acknowledgement of TCP makes room. */
  @Test
  void aSenderWithoutRoomDoubtsALaneOfWhichAllHasCome() throws IOException {
    try (ServerSocketChannel server = ServerSocketChannel.open();
        DeviceMemory memory = HostDevice.instance().allocate(MUCH)) {
      server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      SocketChannel from = SocketChannel.open(server.getLocalAddress());
      try (SocketChannel to = server.accept()) {
        from.configureBlocking(false);
        DataSocket lane = new DataSocket(1, DataChannel.plain(from), true, SILENCE);
        lane.post(new SocketMemory(memory, 2), 0, MUCH);
        while (lane.progress() > 0) {
          assertTrue(to.isOpen());
        }
        Prepared spare = new Prepared();
        long now = System.nanoTime();
        lane.takeReport(lane.place(), now - SILENCE.toNanos() / 2);
        assertFalse(lane.look(new Link(), spare, false, BOUND), "one report");
        assertEquals(0, spare.asked);
        lane.takeReport(lane.place(), now);
        lane.look(new Link(), spare, false, BOUND);
        assertEquals(1, spare.asked);
      } finally {
        from.close();
      }
    }
  }
}
