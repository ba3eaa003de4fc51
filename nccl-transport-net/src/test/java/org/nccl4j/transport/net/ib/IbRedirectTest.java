package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;

/** Receives that are moved to other memory after they have begun. */
@Timeout(600)
class IbRedirectTest extends WithRoce {
  /** More than the immediate's size holds. */
  private static final int LARGE = 9 << 20;

  private static final int OFFSET = 96;

  private static void end(NetRequest receive, NetRequest send, int[] sizes) {
    boolean[] ended = new boolean[2];
    IbLink.await(
        () -> {
          ended[0] = ended[0] || receive.test(sizes);
          ended[1] = ended[1] || send.test(null);
          return ended[0] && ended[1];
        });
  }

  private static IbLink link(int pairs, boolean split) {
    return new IbLink(
        "NCCL_IB_QPS_PER_CONNECTION",
        Integer.toString(pairs),
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        split ? "1" : "0");
  }

  @ParameterizedTest
  @CsvSource({
    "1, false, 200000, 0", "1, false, 200000, 7", "1, false, 300, 7", "3, false, 200000, 7",
    "3, true, 200000, 0", "2, true, 9437184, 0", "1, false, 9437184, 9", "1, false, 0, 0"
  })
  void messagesGoToTheOtherMemory(int pairs, boolean split, int bytes, int note) {
    assertTrue(bytes <= LARGE);
    try (IbLink link = link(pairs, split);
        DeviceMemory source = IbLink.pattern(bytes + 1, 3);
        DeviceMemory slot = IbLink.memory(LARGE);
        DeviceMemory other = IbLink.memory(LARGE + OFFSET + 1)) {
      NetMemory from = link.sender.register(source);
      NetMemory to = link.receiver.register(slot);
      NetMemory elsewhere = link.receiver.register(other);
      assertTrue(link.receiver.redirects());
      for (int round = 0; round < 3 * ClearToSend.SLOTS; round++) {
        boolean moved = round % 3 > 0;
        int exact = round % 3 == 1 ? bytes : bytes + 1;
        int large = bytes > 1 << 20 ? 3 : 3 * ClearToSend.SLOTS;
        if (round >= large) {
          break;
        }
        boolean early = round % 2 > 0;
        NetRequest receive =
            moved && early
                ? link.receiveMoved(to, 0, LARGE, 5, elsewhere, OFFSET, exact)
                : link.receive(to, 0, LARGE, 5);
        if (moved && early) {
          assertFalse(receive.redirect(elsewhere, OFFSET, exact), "twice");
        } else if (moved) {
          IbLink.await(() -> receive.redirect(elsewhere, OFFSET, exact));
          assertFalse(receive.redirect(elsewhere, OFFSET, exact), "twice");
        }
        int[] sizes = new int[1];
        end(receive, link.send(from, 0, bytes, 5, note), sizes);
        assertEquals(bytes, sizes[0]);
        assertEquals(note, receive.note());
        assertEquals(round % 3 == 1, receive.isRedirected());
        DeviceMemory used = receive.isRedirected() ? other : slot;
        DeviceMemory unused = receive.isRedirected() ? slot : other;
        byte[] data = IbLink.read(used, used == other ? OFFSET : 0, bytes);
        assertArrayEquals(IbLink.patternBytes(bytes, 3), data);
        assertArrayEquals(
            new byte[bytes], IbLink.read(unused, unused == other ? OFFSET : 0, bytes));
        used.write(used == other ? OFFSET : 0, ByteBuffer.wrap(new byte[bytes]));
      }
    }
  }

  @Test
  void theFirstMemoryIsUsedIfTheMessageWasSentBefore() {
    try (IbLink link = link(1, false);
        DeviceMemory source = IbLink.pattern(1000, 3);
        DeviceMemory slot = IbLink.memory(1000);
        DeviceMemory other = IbLink.memory(1000)) {
      NetMemory from = link.sender.register(source);
      NetMemory to = link.receiver.register(slot);
      NetMemory elsewhere = link.receiver.register(other);
      NetRequest receive = link.receive(to, 0, 1000, 0);
      NetRequest send = link.send(from, 0, 1000, 0);
      receive.redirect(elsewhere, 0, 1000); // true unless the receiver knows already
      end(receive, send, new int[1]);
      assertFalse(receive.isRedirected());
      assertArrayEquals(IbLink.patternBytes(1000, 3), IbLink.read(slot, 0, 1000));
      assertArrayEquals(new byte[1000], IbLink.read(other, 0, 1000));
    }
  }

  @Test
  void groupsAndForeignMemoryAreRefused() {
    try (IbLink link = link(1, false);
        DeviceMemory slot = IbLink.memory(1000);
        DeviceMemory other = IbLink.memory(1000)) {
      NetMemory to = link.receiver.register(slot);
      NetMemory elsewhere = link.receiver.register(other);
      NetRequest group =
          link.receive(
              2,
              new NetMemory[] {to, to},
              new long[] {0, 500},
              new int[] {500, 500},
              new int[] {0, 1});
      assertFalse(group.redirect(elsewhere, 0, 500));
      NetRequest one = link.receive(to, 0, 1000, 2);
      assertThrows(InvalidArgumentException.class, () -> one.redirect(elsewhere, 500, 501));
      elsewhere.close();
      assertThrows(InvalidArgumentException.class, () -> one.redirect(elsewhere, 0, 500));
    }
  }
}
