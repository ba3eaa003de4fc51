package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** Strangers on the network's port: garbage, mutated greetings, silence, replay. */
@Timeout(600)
class SocketHandshakeTest {
  private static final int MUTATIONS = 3000;
  private static final int CLIENT_HELLO = 45;

  private static long openFiles() throws IOException {
    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
      return files.count();
    }
  }

  private static int port(NetListener listener) {
    return ByteBuffer.wrap(listener.handle()).getShort(2) & 0xffff;
  }

  /** A client's hello that is right in everything but what only the secret gives. */
  private static byte[] hello(NetListener listener) {
    ByteBuffer hello = ByteBuffer.allocate(CLIENT_HELLO);
    hello.put("NCCL4JWR".getBytes(StandardCharsets.US_ASCII)).put((byte) 1).put((byte) 0);
    hello.put((byte) 2);
    hello.put(new byte[16]).put(Arrays.copyOfRange(listener.handle(), 4, 19)); // the token
    return hello.put((byte) 0).put((byte) 0).put((byte) 1).array(); // address, place, sockets
  }

  @Test
  void thousandsOfStrangersDisturbNobody() throws Exception {
    long seed = 42;
    Random random = new Random(seed);
    try (Net net = new SocketNetProvider().open(LoopbackContext.of(0));
        Net friend = new SocketNetProvider().open(LoopbackContext.of(1));
        Refusals refusals = new Refusals()) {
      NetListener listener = net.listen(0);
      InetSocketAddress address =
          new InetSocketAddress(InetAddress.getLoopbackAddress(), port(listener));
      long before = openFiles();
      for (int m = 0; m < MUTATIONS; m++) {
        try (SocketChannel stranger = SocketChannel.open(address)) {
          stranger.write(ByteBuffer.wrap(mutated(hello(listener), random)));
          assertNull(listener.accept());
        } catch (IOException e) {
          assertNull(listener.accept(), "refused while it wrote: " + e);
        }
      }
      for (int look = 0; look < 1000; look++) {
        assertNull(listener.accept());
      }
      assertTrue(openFiles() - before < 300, "descriptors of strangers are kept");
      assertTrue(listener.toString().contains("refused meanwhile"), listener.toString());
      connect(friend, listener);
      assertEquals(List.of(Integer.toString(port(listener))), refusals.ports());
    }
  }

  /** One of: flipped bits, cut short, something appended, garbage. */
  private static byte[] mutated(byte[] hello, Random random) {
    byte[] bytes = Arrays.copyOf(hello, hello.length + (random.nextInt(4) == 0 ? 64 : 0));
    switch (random.nextInt(3)) {
      case 0 -> bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
      case 1 -> bytes = Arrays.copyOf(bytes, random.nextInt(bytes.length));
      default -> random.nextBytes(bytes);
    }
    return bytes;
  }

  private static void connect(Net from, NetListener listener) {
    NetSender sender = from.connect(0, listener.handle());
    NetReceiver receiver = null;
    long end = System.nanoTime() + WiredRanks.PATIENCE_NANOS;
    while (receiver == null && System.nanoTime() - end < 0) {
      sender.isConnected();
      receiver = listener.accept();
    }
    assertNotNull(receiver, "a friend is not let in");
  }

  @Test
  void silentOnesDoNotKeepFriendsOut() throws Exception {
    try (Net net = new SocketNetProvider().open(LoopbackContext.of(0));
        Net friend = new SocketNetProvider().open(LoopbackContext.of(1))) {
      NetListener listener = net.listen(0);
      Socket[] silent = new Socket[400];
      try {
        for (int s = 0; s < silent.length; s++) {
          silent[s] = new Socket(InetAddress.getLoopbackAddress(), port(listener));
          assertNull(listener.accept());
        }
        connect(friend, listener);
      } finally {
        for (Socket socket : silent) {
          if (socket != null) {
            socket.close();
          }
        }
      }
    }
  }

  @Test
  void aRecordedGreetingIsWorthless() throws Exception {
    try (Net net = new SocketNetProvider().open(LoopbackContext.of(0))) {
      NetListener listener = net.listen(0);
      byte[] hello = hello(listener);
      byte[] first = answer(listener, hello);
      byte[] second = answer(listener, hello);
      assertEquals(first.length, second.length);
      assertTrue(!Arrays.equals(first, second), "the server's nonce is the same twice");
    }
  }

  /** Reads the server's answer to a hello, and checks that a wrong proof ends the connection. */
  private static byte[] answer(NetListener listener, byte[] hello) throws IOException {
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port(listener))) {
      socket.setSoTimeout(50);
      socket.getOutputStream().write(hello);
      byte[] answer = new byte[27];
      int got = 0;
      for (int look = 0; got < answer.length && look < 200; look++) {
        assertNull(listener.accept());
        try {
          got += Math.max(0, socket.getInputStream().read(answer, got, answer.length - got));
        } catch (SocketTimeoutException e) {
          assertTrue(look < 199, "no answer to a hello");
        }
      }
      socket.getOutputStream().write(new byte[32]);
      int next = 0;
      for (int look = 0; next >= 0 && look < 200; look++) {
        assertNull(listener.accept());
        try {
          next = socket.getInputStream().read();
        } catch (SocketTimeoutException e) {
          next = 0;
        } catch (IOException e) {
          next = -1;
        }
      }
      assertEquals(-1, next, "a wrong proof is not refused");
      return answer;
    }
  }
}
