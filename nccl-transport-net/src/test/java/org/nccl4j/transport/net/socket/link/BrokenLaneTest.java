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

/** A lane that breaks at the receiver alone: its sender, which is to dial another, hears of it. */
@Timeout(60)
class BrokenLaneTest {
  private static final Duration SILENCE = Duration.ofSeconds(8);
  private static final Duration BOUND = Duration.ofSeconds(10);
  private static final int BYTES = 100;

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
}
