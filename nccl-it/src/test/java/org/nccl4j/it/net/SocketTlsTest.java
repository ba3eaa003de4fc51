package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.nccl4j.it.net.WiredRanks.until;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
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

/** Sockets with TLS: nothing is readable on the way, what is changed is found, strangers fail. */
@Timeout(600)
class SocketTlsTest {
  private static final int BYTES = 600_000;

  private static Net open(int rank, Map<String, String> settings) {
    return new SocketNetProvider().open(LoopbackContext.of(rank, settings));
  }

  /** A message through a wire; throws the receiver's error if both ends have one. */
  private static byte[] move(Map<String, String> settings, FaultyWireOf wired, byte[] data)
      throws Exception {
    // After an error a socket's thread may write to the memory until its network is closed.
    try (DeviceMemory out = Devices.host().allocate(data.length);
        DeviceMemory in = Devices.host().allocate(data.length);
        Net from = open(0, settings);
        Net to = open(1, settings)) {
      NetListener listener = to.listen(0);
      byte[] handle = listener.handle();
      int port = ByteBuffer.wrap(handle).getShort(2) & 0xffff;
      try (FaultyWire wire = wired.before(port)) {
        ByteBuffer.wrap(handle).putShort(2, (short) wire.port());
        NetSender sender = from.connect(0, handle);
        NetReceiver[] receiver = new NetReceiver[1];
        until(
            () -> {
              receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
              return sender.isConnected() & receiver[0] != null;
            });
        out.write(0, ByteBuffer.wrap(data));
        NetMemory source = sender.register(out);
        NetMemory[] target = {receiver[0].register(in)};
        NetRequest receive =
            Requests.begun(
                () ->
                    receiver[0].irecv(
                        1, target, new long[] {0}, new int[] {data.length}, new int[] {3}));
        NetRequest send = Requests.begun(() -> sender.isend(source, 0, data.length, 3));
        RemoteException[] errors = new RemoteException[2];
        boolean[] over = new boolean[2];
        until(
            () -> {
              over[0] = over[0] || isOver(receive, 0, errors);
              over[1] = over[1] || isOver(send, 1, errors);
              return over[0] && over[1];
            });
        if (errors[0] != null) {
          errors[0].addSuppressed(errors[1]);
          throw errors[0];
        }
        byte[] got = new byte[data.length];
        in.read(0, ByteBuffer.wrap(got));
        return got;
      }
    }
  }

  private static boolean isOver(NetRequest request, int side, RemoteException[] errors) {
    try {
      return request.test(null);
    } catch (RemoteException e) {
      errors[side] = e;
      return true;
    }
  }

  /** Puts a wire before a port. */
  private interface FaultyWireOf {
    FaultyWire before(int port) throws Exception;
  }

  private static FaultyWire wire(int port, WireFaults faults) throws Exception {
    return FaultyWire.before(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), faults);
  }

  private static Map<String, String> settings(int threads, String bound) {
    return Map.of(
        "NCCL_SOCKET_NTHREADS", Integer.toString(threads), "NCCL4J_NET_FAILOVER_TIMEOUT", bound);
  }

  /** The same recording finds the text where TLS is off. */
  @ParameterizedTest
  @CsvSource({"0, 1, 100", "0, 0, 100", "0, 1, 50000", "0, 0, 50000", "2, 1, 50000", "2, 0, 50000"})
  void theDataAreReadableOnlyWithoutTls(int threads, String tls, int bytes) throws Exception {
    String text = "these are the weights of a model";
    byte[] data = text.repeat(bytes / text.length()).getBytes(StandardCharsets.US_ASCII);
    Map<String, String> settings = Certificates.with(settings(threads, "10s"));
    settings.put("NCCL4J_NET_TLS", tls);
    FaultyWire[] wire = new FaultyWire[1];
    assertArrayEquals(data, move(settings, port -> wire[0] = wire(port, WireFaults.none()), data));
    StringBuilder recorded = new StringBuilder();
    wire[0].recorded().forEach(each -> recorded.append(latin(each)));
    assertEquals(tls.equals("0"), recorded.indexOf(text) >= 0);
  }

  private static String latin(byte[] bytes) {
    return new String(bytes, StandardCharsets.ISO_8859_1);
  }

  /** Each socket flips a bit; those that take over bring the rest. */
  @ParameterizedTest
  @CsvSource({"0, 300000", "0, 599999", "2, 150000"})
  void anotherSocketTakesOverFromOneWhoseBytesChange(int threads, long at) throws Exception {
    byte[] data = random();
    Map<String, String> settings = Certificates.with(settings(threads, "60s"));
    assertArrayEquals(data, move(settings, port -> wire(port, WireFaults.flip(at)), data));
  }

  @ParameterizedTest
  @CsvSource({"0, 300000", "2, 150000"})
  void withoutFailoverBytesThatChangeAreAnError(int threads, long at) {
    Map<String, String> settings = Certificates.with(settings(threads, "0"));
    RemoteException error =
        assertThrows(
            RemoteException.class,
            () -> move(settings, port -> wire(port, WireFaults.flip(at)), random()));
    assertEquals(ErrorId.DAMAGED, error.id(), error.problem());
    assertTrue(error.problem().contains("TLS: bytes were damaged in transit"), error.problem());
    assertTrue(error.remedy().contains("cables"), error.remedy());
  }

  /** The first record of every socket is damaged, so none brings anything. */
  @Test
  void bytesThatChangeAgainAndAgainAreAnErrorByTheBound() {
    Map<String, String> settings = Certificates.with(settings(0, "1s"));
    RemoteException error =
        assertThrows(
            RemoteException.class,
            () -> move(settings, port -> wire(port, WireFaults.flip(8_000)), random()));
    assertEquals(ErrorId.DAMAGED, error.id(), error.problem());
    assertTrue(error.problem().contains("within 1 s"), error.problem());
  }

  private static byte[] random() {
    byte[] data = new byte[BYTES];
    new Random(7).nextBytes(data);
    return data;
  }

  /** Short reads and writes, also in the handshake. */
  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void piecesOfRecordsArePutTogether(int threads) throws Exception {
    byte[] data = random();
    Map<String, String> settings = Certificates.with(settings(threads, "60s"));
    assertArrayEquals(data, move(settings, port -> wire(port, WireFaults.pieces(3, 61)), data));
  }

  /**
   * How two ends that cannot connect fail.
   *
   * @param refusal by which the listening end refuses, unless it has an error
   */
  private static NcclException[] errors(
      Map<String, String> near, Map<String, String> far, String refusal) {
    try (Net from = open(0, near);
        Net to = open(1, far)) {
      NetListener listener = to.listen(0);
      NetSender sender = from.connect(0, listener.handle());
      NcclException[] errors = new NcclException[2];
      until(
          () -> {
            try {
              sender.isConnected();
            } catch (NcclException e) {
              errors[0] = e;
            }
            try {
              assertNull(listener.accept());
            } catch (NcclException e) {
              errors[1] = e;
            }
            return errors[0] != null
                && (errors[1] != null || listener.toString().contains(refusal));
          });
      if (errors[1] == null) {
        errors[1] = new RemoteException(ErrorId.CONNECTION, listener.toString(), "");
      }
      return errors;
    }
  }

  private static Map<String, String> of(String kind) {
    Map<String, String> settings = new HashMap<>();
    if (!kind.equals("none")) {
      settings.putAll(Certificates.with(settings));
      settings.put("NCCL4J_NET_TLS", kind);
    }
    return settings;
  }

  @ParameterizedTest
  @CsvSource({"1, 0", "0, 1", "1, none"})
  void bothEndsNameDifferentSettings(String near, String far) {
    String yes = "NCCL4J_NET_TLS is 1 with certificates on this rank, and 0 or without";
    String no = "NCCL4J_NET_TLS is 0 or without certificates on this rank, and 1 with";
    NcclException[] errors = errors(of(near), of(far), "NCCL4J_NET_TLS");
    for (int side = 0; side < 2; side++) {
      boolean encrypts = (side == 0 ? near : far).equals("1");
      assertTrue(errors[side] instanceof InvalidUsageException, errors[side].toString());
      assertTrue(errors[side].problem().startsWith(encrypts ? yes : no), errors[side].problem());
      assertTrue(errors[side].remedy().contains("NCCL4J_NET_TLS"), errors[side].remedy());
      assertTrue(errors[side].remedy().contains("NCCL4J_TLS_CERT"), errors[side].remedy());
    }
  }

  /** The bootstrap refuses such a rank before; here both ends say what is wrong all the same. */
  @Test
  void aRankWithoutCertificatesIsRefused() {
    NcclException[] errors = errors(of("none"), of("1"), "it does not speak TLS");
    assertTrue(errors[0].problem().contains("NCCL4J_NET_TLS is 0 or without"), errors[0].problem());
    assertTrue(errors[1].problem().contains("it does not speak TLS"), errors[1].problem());
    assertTrue(errors[1].problem().contains("NCCL4J_TLS_CERT"), errors[1].problem());
  }

  @Test
  void aDiallingStrangersCertificateIsRefused() {
    NcclException[] errors =
        errors(
            Certificates.with(Map.of(), "stranger", "both-authorities"),
            Certificates.with(Map.of()),
            "its certificate is not accepted");
    assertTrue(errors[0].problem().contains("accept this side's certificate"), errors[0].problem());
    assertTrue(errors[0].remedy().contains("NCCL4J_TLS_CA"), errors[0].remedy());
    assertTrue(
        errors[1].problem().contains("its certificate is not accepted"), errors[1].problem());
    assertTrue(errors[1].problem().contains("look at NCCL4J_TLS_CA"), errors[1].problem());
  }

  @Test
  void aListeningStrangersCertificateIsRefused() {
    NcclException[] errors =
        errors(
            Certificates.with(Map.of()),
            Certificates.with(Map.of(), "stranger", "both-authorities"),
            "accept this side's certificate");
    assertTrue(
        errors[0].problem().contains("its certificate is not accepted"), errors[0].problem());
    assertTrue(errors[0].problem().contains("look at NCCL4J_TLS_CA here"), errors[0].problem());
    assertTrue(errors[1].problem().contains("accept this side's certificate"), errors[1].problem());
  }

  /** Bytes of any kind instead of a handshake disturb nobody. */
  @Test
  void garbageDoesNotKeepFriendsOut() throws Exception {
    Random random = new Random(11);
    try (Net net = open(0, of("1"));
        Net friend = open(1, of("1"))) {
      NetListener listener = net.listen(0);
      int port = ByteBuffer.wrap(listener.handle()).getShort(2) & 0xffff;
      for (int s = 0; s < 300; s++) {
        byte[] garbage = new byte[1 + random.nextInt(600)];
        random.nextBytes(garbage);
        if (s % 2 == 0) {
          // A record of a handshake by its header.
          System.arraycopy(new byte[] {22, 3, 3, 1}, 0, garbage, 0, Math.min(4, garbage.length));
        }
        try (SocketChannel stranger =
            SocketChannel.open(new InetSocketAddress(InetAddress.getLoopbackAddress(), port))) {
          stranger.write(ByteBuffer.wrap(garbage));
          assertNull(listener.accept());
        }
      }
      NetSender sender = friend.connect(0, listener.handle());
      boolean[] accepted = new boolean[1];
      until(
          () -> {
            accepted[0] |= listener.accept() != null;
            return sender.isConnected() && accepted[0];
          });
    }
  }
}
