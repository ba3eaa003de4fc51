package org.nccl4j.transport.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.RemoteException;

/** A rank's request to the rank that sends for it. */
class PxnRequestTest {
  @Test
  void whatIsAskedIsUnderstood() {
    PxnRequest asked = new PxnRequest(12, 2, "IB", "mlx5_3:1", "/tmp/a b/c.sock");
    assertEquals(asked, PxnRequest.fromBytes(0, asked.toBytes()));
    PxnRequest most = new PxnRequest(12, NetChannelCount.MOST, "IB", "mlx5_3:1", "/c.sock");
    assertEquals(most, PxnRequest.fromBytes(0, most.toBytes()));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "12",
        "12\n2\nIB\nmlx5_3",
        "-1\n2\nIB\na\n/b",
        "1234567890\n2\nIB\na\n/b",
        "12\n0\nIB\na\n/b",
        "12\n33\nIB\na\n/b",
        "x\n\n\n\n"
      })
  void whatIsNotIsRefused(String text) {
    RemoteException e =
        assertThrows(
            RemoteException.class,
            () -> PxnRequest.fromBytes(7, text.getBytes(StandardCharsets.UTF_8)));
    assertTrue(e.getMessage().contains("rank 7"), e.getMessage());
  }

  @Test
  void aPathThatIsNoneIsRefused() {
    byte[] bytes = "1\n2\nIB\na\n/b\0c".getBytes(StandardCharsets.UTF_8);
    assertThrows(RemoteException.class, () -> PxnRequest.fromBytes(7, bytes));
  }
}
