package org.nccl4j.api.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.ProtocolException;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.wire.Handshake.Service;

class HandshakeTest {
  private static final byte[] SECRET =
      new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

  @Test
  void bothSidesThatKnowTheSecretAreDone() throws ProtocolException {
    Handshake client = Handshake.client(SECRET, Service.RING);
    Handshake server = Handshake.server(SECRET, Service.RING);
    byte[] proof = client.step(server.step(client.opening()));
    assertFalse(client.done() || server.done());
    client.step(server.step(proof));
    assertTrue(client.done() && server.done());
  }

  @Test
  void neitherSideAcceptsAnotherSecret() throws ProtocolException {
    Handshake client = Handshake.client(new byte[16], Service.RING);
    Handshake server = Handshake.server(SECRET, Service.RING);
    byte[] proof = client.step(server.step(client.opening()));
    assertThrows(ProtocolException.class, () -> server.step(proof));
    assertThrows(ProtocolException.class, () -> client.step(new byte[Handshake.PROOF_BYTES]));
  }

  @Test
  void aRecordedExchangeIsWorthless() throws ProtocolException {
    Handshake client = Handshake.client(SECRET, Service.ROOT);
    Handshake server = Handshake.server(SECRET, Service.ROOT);
    byte[] greeting = client.opening();
    byte[] proof = client.step(server.step(greeting));
    server.step(proof);
    Handshake again = Handshake.server(SECRET, Service.ROOT);
    again.step(greeting);
    assertThrows(ProtocolException.class, () -> again.step(proof));
  }

  @Test
  void aReflectedExchangeIsWorthless() throws ProtocolException {
    Handshake client = Handshake.client(SECRET, Service.ROOT);
    byte[] greeting = client.opening();
    assertThrows(ProtocolException.class, () -> client.step(greeting));
    byte[] asServer = greeting.clone();
    asServer[9] = 1;
    byte[] proof = client.step(asServer);
    assertThrows(ProtocolException.class, () -> client.step(proof));
  }

  @Test
  void aConnectionForOnePurposeIsNotTakenForAnother() {
    Handshake server = Handshake.server(SECRET, Service.ROOT);
    byte[] greeting = Handshake.client(SECRET, Service.RING).opening();
    assertThrows(ProtocolException.class, () -> server.step(greeting));
  }

  @Test
  void aRequestComesThroughAndCannotBeChanged() throws ProtocolException {
    byte[] wish = {7, 8};
    Handshake client = Handshake.client(SECRET, Service.SOCKET, wish);
    Handshake server = Handshake.server(SECRET, Service.SOCKET);
    byte[] hello = client.opening();
    byte[] changed = hello.clone();
    changed[Handshake.HELLO_BYTES]++;
    Handshake deceived = Handshake.server(SECRET, Service.SOCKET);
    client.step(server.step(hello));
    assertEquals(7, server.request().get(0));
    assertEquals(Handshake.REQUEST_BYTES, server.request().remaining());
    byte[] answer = deceived.step(changed);
    byte[] proof = Handshake.client(SECRET, Service.SOCKET, wish).step(answer);
    assertThrows(ProtocolException.class, () -> deceived.step(proof));
  }

  @Test
  void messagesAreSignedForOneConnectionAndOneDirection() throws ProtocolException {
    Handshake[] one = met();
    Handshake[] other = met();
    byte[] message = {1, 2, 3};
    byte[] signature = one[0].sign(message);
    one[1].verify(message, signature);
    assertThrows(ProtocolException.class, () -> one[0].verify(message, signature));
    assertThrows(ProtocolException.class, () -> other[1].verify(message, signature));
    assertThrows(ProtocolException.class, () -> one[1].verify(new byte[3], signature));
  }

  private static Handshake[] met() throws ProtocolException {
    Handshake client = Handshake.client(SECRET, Service.INFINIBAND, new byte[8]);
    Handshake server = Handshake.server(SECRET, Service.INFINIBAND);
    client.step(server.step(client.step(server.step(client.opening()))));
    return new Handshake[] {client, server};
  }

  @Test
  void anotherVersionIsNamed() {
    byte[] hello = Handshake.client(SECRET, Service.RING).opening();
    hello[8] = 9;
    ProtocolException wrong =
        assertThrows(
            ProtocolException.class, () -> Handshake.server(SECRET, Service.RING).step(hello));
    assertTrue(wrong.getMessage().contains("version 9"), wrong.getMessage());
  }

  @Test
  void anyChangedBitIsRefused() throws ProtocolException {
    for (int bit = 0; bit < 8 * Handshake.PROOF_BYTES; bit++) {
      Handshake client = Handshake.client(SECRET, Service.RING);
      Handshake server = Handshake.server(SECRET, Service.RING);
      byte[] proof = client.step(server.step(client.opening()));
      proof[bit / 8] ^= (byte) (1 << (bit % 8));
      assertThrows(ProtocolException.class, () -> server.step(proof));
    }
  }
}
