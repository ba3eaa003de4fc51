package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.ProtocolException;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.Handshake.Purpose;

class HandshakeTest {
  private static final byte[] SECRET =
      new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

  @Test
  void bothSidesThatKnowTheSecretAreDone() throws ProtocolException {
    Handshake client = Handshake.client(SECRET, Purpose.RING);
    Handshake server = Handshake.server(SECRET, Purpose.RING);
    byte[] proof = client.step(server.step(client.opening()));
    assertFalse(client.done() || server.done());
    client.step(server.step(proof));
    assertTrue(client.done() && server.done());
  }

  @Test
  void neitherSideAcceptsAnotherSecret() throws ProtocolException {
    Handshake client = Handshake.client(new byte[16], Purpose.RING);
    Handshake server = Handshake.server(SECRET, Purpose.RING);
    byte[] proof = client.step(server.step(client.opening()));
    assertThrows(ProtocolException.class, () -> server.step(proof));
    assertThrows(ProtocolException.class, () -> client.step(new byte[Handshake.PROOF_BYTES]));
  }

  @Test
  void aRecordedExchangeIsWorthless() throws ProtocolException {
    Handshake client = Handshake.client(SECRET, Purpose.CONTROL);
    Handshake server = Handshake.server(SECRET, Purpose.CONTROL);
    byte[] greeting = client.opening();
    byte[] proof = client.step(server.step(greeting));
    server.step(proof);
    Handshake again = Handshake.server(SECRET, Purpose.CONTROL);
    again.step(greeting);
    assertThrows(ProtocolException.class, () -> again.step(proof));
  }

  @Test
  void aReflectedExchangeIsWorthless() throws ProtocolException {
    Handshake client = Handshake.client(SECRET, Purpose.CONTROL);
    byte[] greeting = client.opening();
    assertThrows(ProtocolException.class, () -> client.step(greeting));
    byte[] asServer = greeting.clone();
    asServer[9] = 1;
    byte[] proof = client.step(asServer);
    assertThrows(ProtocolException.class, () -> client.step(proof));
  }

  @Test
  void aConnectionForOnePurposeIsNotTakenForAnother() {
    Handshake server = Handshake.server(SECRET, Purpose.CONTROL);
    byte[] greeting = Handshake.client(SECRET, Purpose.RING).opening();
    assertThrows(ProtocolException.class, () -> server.step(greeting));
  }

  @Test
  void anyChangedBitIsRefused() throws ProtocolException {
    for (int bit = 0; bit < 8 * Handshake.PROOF_BYTES; bit++) {
      Handshake client = Handshake.client(SECRET, Purpose.RING);
      Handshake server = Handshake.server(SECRET, Purpose.RING);
      byte[] proof = client.step(server.step(client.opening()));
      proof[bit / 8] ^= (byte) (1 << (bit % 8));
      assertThrows(ProtocolException.class, () -> server.step(proof));
    }
  }
}
