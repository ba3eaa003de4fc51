package org.nccl4j.transport.net.socket.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;

/** Threads that connections share: they come in turn, and leave what is removed alone. */
@Timeout(600)
class SharedSocketThreadsTest {
  private static final int BYTES = 100_000;

  private final SharedSocketThreads threads = new SharedSocketThreads(2);
  private SocketChannel from;
  private SocketChannel to;
  private DeviceMemory memory;
  private ByteBuffer content;

  @BeforeEach
  void connect() throws IOException {
    try (ServerSocketChannel server = ServerSocketChannel.open()) {
      server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      from = SocketChannel.open(server.getLocalAddress());
      to = server.accept();
    }
    from.configureBlocking(false);
    to.configureBlocking(false);
    memory = HostDevice.instance().allocate(2 * BYTES);
    content = HostDevice.view(memory, 0, 2 * BYTES);
  }

  @AfterEach
  void close() throws IOException {
    threads.close();
    from.close();
    to.close();
    memory.close();
  }

  @Test
  void connectionsTakeThemInTurn() {
    try (SharedSocketThreads two = new SharedSocketThreads(8)) {
      DataSocketThread first = two.take();
      assertNotSame(first, two.take());
      assertSame(first, two.take());
    }
  }

  @Test
  void oneThreadMovesBothDirections() throws InterruptedException {
    DataSocketThread thread = threads.take();
    assertSame(thread, threads.take());
    SocketMemory bytes = new SocketMemory(memory, 2);
    for (int at = 0; at < BYTES; at += Long.BYTES) {
      content.putLong(at, at * 31L + 7);
    }
    DataSocket sending = new DataSocket(1, DataChannel.plain(from), true, Duration.ZERO);
    DataSocket receiving = new DataSocket(1, DataChannel.plain(to), false, Duration.ZERO);
    thread.add(sending);
    thread.add(receiving);
    // Each has buffers of its own, since both are in one memory.
    SocketMemory there = new SocketMemory(memory, 2);
    receiving.post(there, BYTES, BYTES);
    sending.post(bytes, 0, BYTES);
    thread.wake();
    while (receiving.done() == 0) {
      Thread.sleep(1);
    }
    for (int at = 0; at < BYTES; at += Long.BYTES) {
      assertEquals(at * 31L + 7, content.getLong(BYTES + at));
    }
  }

  @Test
  void whatIsRemovedIsLeftAlone() throws Exception {
    DataSocketThread thread = threads.take();
    DataSocket receiving = new DataSocket(1, DataChannel.plain(to), false, Duration.ZERO);
    DataSocket other = new DataSocket(1, DataChannel.plain(from), false, Duration.ZERO);
    thread.add(receiving);
    thread.add(other);
    receiving.post(new SocketMemory(memory, 2), 0, BYTES);
    thread.wake();
    thread.remove(List.of(receiving));
    content.putLong(0, 42);
    from.write(ByteBuffer.wrap(new byte[] {1, 2, 3, 4, 5, 6, 7, 8}));
    other.post(new SocketMemory(memory, 2), BYTES, Long.BYTES);
    to.write(ByteBuffer.allocate(Long.BYTES));
    thread.wake();
    while (other.done() == 0) {
      Thread.sleep(1);
    }
    assertEquals(42, content.getLong(0));
    assertTrue(receiving.isBusy());
  }
}
