package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.nccl4j.it.net.WiredRanks.until;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.testkit.faults.FaultyWire;
import org.nccl4j.testkit.faults.WireFaults;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** Messages that change on their way, with and without checksums. */
@Timeout(600)
class DamagedMessagesTest {
  private static final String CHECKSUM = "NCCL4J_NET_CHECKSUM";
  private static final int BYTES = 600_000;

  /** What a client sends before its first message: hello and proof. */
  private static final int GREETING = 77;

  private static final int HEADER = 20;

  private static Map<String, String> settings(String checksum, int threads) {
    return Map.of(CHECKSUM, checksum, "NCCL_SOCKET_NTHREADS", Integer.toString(threads));
  }

  /** A connection whose bytes go through a wire. */
  private static final class Wired implements AutoCloseable {
    final byte[] sent = new byte[BYTES];
    private final Net from;
    private final Net to;
    private final FaultyWire wire;
    private final DeviceMemory out = Devices.host().allocate(BYTES);
    private final DeviceMemory in = Devices.host().allocate(BYTES);
    private final NetSender sender;
    private final NetReceiver receiver;
    private final NetMemory source;
    private final NetMemory target;

    Wired(Map<String, String> settings, WireFaults faults) throws Exception {
      from = new SocketNetProvider().open(LoopbackContext.of(0, settings));
      to = new SocketNetProvider().open(LoopbackContext.of(1, settings));
      NetListener listener = to.listen(0);
      byte[] handle = listener.handle();
      int port = ByteBuffer.wrap(handle).getShort(2) & 0xffff;
      wire =
          FaultyWire.before(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), faults);
      ByteBuffer.wrap(handle).putShort(2, (short) wire.port());
      sender = from.connect(0, handle);
      NetReceiver[] accepted = new NetReceiver[1];
      until(
          () -> {
            accepted[0] = accepted[0] == null ? listener.accept() : accepted[0];
            return sender.isConnected() & accepted[0] != null;
          });
      receiver = accepted[0];
      new Random(7).nextBytes(sent);
      out.write(0, ByteBuffer.wrap(sent));
      source = sender.register(out);
      target = receiver.register(in);
    }

    /** Sends a message and returns what has come, or throws the receiver's error if it has one. */
    byte[] move(int bytes) {
      NetRequest receive =
          Requests.begun(
              () ->
                  receiver.irecv(
                      1,
                      new NetMemory[] {target},
                      new long[] {0},
                      new int[] {bytes},
                      new int[] {3}));
      NetRequest send = Requests.begun(() -> sender.isend(source, 0, bytes, 3));
      boolean[] done = new boolean[2];
      NcclException[] lost = new NcclException[1]; // by the sender, once the receiver has closed
      until(
          () -> {
            try {
              done[0] = done[0] || lost[0] == null && send.test(null);
            } catch (NcclException e) {
              lost[0] = e;
            }
            done[1] = done[1] || receive.test(null);
            return (done[0] || lost[0] != null) && done[1];
          });
      if (lost[0] != null) {
        throw lost[0];
      }
      ByteBuffer got = ByteBuffer.allocate(bytes);
      in.read(0, got);
      return got.array();
    }

    @Override
    public void close() {
      from.close();
      to.close();
      wire.close();
      out.close();
      in.close();
    }
  }

  /** Positions are those within the messages; messages of 100 bytes lie in a buffer with others. */
  @ParameterizedTest
  @CsvSource({
    // Several sockets: each carries a part, from its greeting on.
    "0, 600000, 500, 0, message 0 of 600000 bytes",
    "0, 600000, 599999, 0, message 0 of 600000 bytes",
    "0, 100, 60, 0, message 0 of 100 bytes",
    "1, 600000, 500, 0, message 1 of 600000 bytes",
    "0, 600000, 500, 2, message 0 of 600000 bytes",
    "0, 600000, 299000, 2, message 0 of 600000 bytes",
  })
  void aFlippedBitOfTheDataEndsTheConnection(
      int before, int bytes, int at, int threads, String named) throws Exception {
    long first = GREETING + (threads > 0 ? 0 : HEADER + before * (long) (8 + HEADER));
    try (Wired wired = new Wired(settings("crc32c", threads), WireFaults.flip(first + at))) {
      for (int m = 0; m < before; m++) {
        wired.move(8);
      }
      RemoteException error = assertThrows(RemoteException.class, () -> wired.move(bytes));
      assertEquals(ErrorId.DAMAGED, error.id());
      assertTrue(
          error
              .problem()
              .matches(
                  "on the connection from 127.0.0.1:\\d+ to 127.0.0.1:\\d+ "
                      + named
                      + " \\(tag 3\\) is damaged: its CRC32C is [0-9a-f]{8}, that of the sent one"
                      + " [0-9a-f]{8}"),
          error.problem());
      assertTrue(error.remedy().contains("cables"), error.remedy());
    }
  }

  /** The same flip: without checksums nobody sees it. */
  @ParameterizedTest
  @CsvSource({"500, 0", "500, 2"})
  void withoutChecksumsTheDataAreWrong(int at, int threads) throws Exception {
    long first = GREETING + (threads > 0 ? 0 : HEADER - 4);
    try (Wired wired = new Wired(settings("none", threads), WireFaults.flip(first + at))) {
      byte[] got = wired.move(BYTES);
      int wrong = 0;
      for (int b = 0; b < BYTES; b++) {
        wrong += got[b] == wired.sent[b] ? 0 : 1;
      }
      // Each socket of several flips a bit.
      assertEquals(Math.max(1, threads), wrong);
      assertEquals(wired.sent[at] ^ 1, got[at]);
    }
  }

  /** Size, tag, note, check, and the sum itself; of the size, both a small and a large part. */
  @ParameterizedTest
  @CsvSource({"0", "3", "4", "8", "15"})
  void aFlippedBitOfAHeaderEndsTheConnection(int at) throws Exception {
    for (String checksum : new String[] {"none", "crc32c"}) {
      try (Wired wired = new Wired(settings(checksum, 0), WireFaults.flip(GREETING + at))) {
        RemoteException error = assertThrows(RemoteException.class, () -> wired.move(BYTES));
        assertEquals(ErrorId.DAMAGED, error.id());
        assertTrue(error.problem().contains("the header of message 0 is damaged"), error.problem());
      }
    }
  }

  @Test
  void aFlippedBitOfTheSumEndsTheConnection() throws Exception {
    try (Wired wired = new Wired(settings("crc32c", 0), WireFaults.flip(GREETING + 17))) {
      RemoteException error = assertThrows(RemoteException.class, () -> wired.move(BYTES));
      assertEquals(ErrorId.DAMAGED, error.id());
    }
  }

  @Test
  void aMessageThatIsCutEndsTheConnection() throws Exception {
    Map<String, String> settings = new HashMap<>(settings("crc32c", 0));
    settings.put("NCCL4J_NET_FAILOVER_TIMEOUT", "0");
    try (Wired wired = new Wired(settings, WireFaults.reset(GREETING + HEADER + 1000))) {
      RemoteException error = assertThrows(RemoteException.class, () -> wired.move(BYTES));
      assertEquals(ErrorId.CONNECTION, error.id());
    }
  }

  @ParameterizedTest
  @CsvSource({"crc32c, none", "none, crc32c"})
  void bothEndsNameDifferentSettings(String near, String far) {
    try (Net from = new SocketNetProvider().open(LoopbackContext.of(0, settings(near, 0)));
        Net to = new SocketNetProvider().open(LoopbackContext.of(1, settings(far, 0)))) {
      NetListener listener = to.listen(0);
      NetSender sender = from.connect(0, listener.handle());
      InvalidUsageException[] errors = new InvalidUsageException[2];
      until(
          () -> {
            try {
              sender.isConnected();
            } catch (InvalidUsageException e) {
              errors[0] = e;
            }
            try {
              listener.accept();
            } catch (InvalidUsageException e) {
              errors[1] = e;
            }
            return errors[0] != null && errors[1] != null;
          });
      String told = CHECKSUM + " is %s on this rank, and %s on the rank at 127.0.0.1:";
      assertTrue(errors[0].problem().startsWith(told.formatted(near, far)), errors[0].problem());
      assertTrue(errors[1].problem().startsWith(told.formatted(far, near)), errors[1].problem());
      assertEquals(ErrorId.SETTINGS_DIFFER, errors[0].id());
    }
  }
}
