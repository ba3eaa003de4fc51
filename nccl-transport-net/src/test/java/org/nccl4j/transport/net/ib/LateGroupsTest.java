package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;

/** Connections over which many groups have gone, where something begins to repeat. */
@Timeout(600)
class LateGroupsTest extends WithRoce {
  private static final int BYTES = 3000;
  private static final int UNDER_WAY = 4;
  private static final int[][] PAIRS = {{1, 0}, {3, 0}, {3, 1}};

  /** As if the groups before one had been sent and received. */
  private static void goOnAt(IbLink link, long group) throws ReflectiveOperationException {
    field(link.receiver, "next").setLong(link.receiver, group);
    field(link.sender, "head").setLong(link.sender, group);
    long[] awaited = (long[]) field(link.sender, "awaited").get(link.sender);
    for (long next = group; next < group + ClearToSend.SLOTS; next++) {
      awaited[(int) ((next - 1) % ClearToSend.SLOTS)] = next;
    }
  }

  private static Field field(Object of, String name) throws ReflectiveOperationException {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  @ParameterizedTest
  @ValueSource(longs = {1L << 30, 1L << 31, 1L << 32, 1L << 62})
  void messagesGoOn(long around) throws ReflectiveOperationException {
    for (int[] pairs : PAIRS) {
      try (IbLink link =
              new IbLink(
                  "NCCL_IB_QPS_PER_CONNECTION",
                  Integer.toString(pairs[0]),
                  "NCCL_IB_SPLIT_DATA_ON_QPS",
                  Integer.toString(pairs[1]));
          DeviceMemory source = IbLink.memory(UNDER_WAY * BYTES);
          DeviceMemory target = IbLink.memory(UNDER_WAY * BYTES)) {
        goOnAt(link, around - ClearToSend.SLOTS);
        NetMemory from = link.sender.register(source);
        NetMemory to = link.receiver.register(target);
        for (int round = 0; round < 2 * ClearToSend.SLOTS / UNDER_WAY; round++) {
          round(link, source, target, from, to, round);
        }
      }
    }
  }

  private static void round(
      IbLink link,
      DeviceMemory source,
      DeviceMemory target,
      NetMemory from,
      NetMemory to,
      int round) {
    byte[] data = IbLink.patternBytes(UNDER_WAY * BYTES, round);
    source.write(0, ByteBuffer.wrap(data));
    List<NetRequest> receives = new ArrayList<>();
    List<NetRequest> sends = new ArrayList<>();
    for (int m = 0; m < UNDER_WAY; m++) {
      receives.add(link.receive(to, (long) m * BYTES, BYTES, round));
      assertNotNull(receives.get(m));
    }
    for (int m = 0; m < UNDER_WAY; m++) {
      sends.add(link.send(from, (long) m * BYTES, BYTES, round));
    }
    int[] size = new int[1];
    for (int m = 0; m < UNDER_WAY; m++) {
      NetRequest receive = receives.get(m);
      NetRequest send = sends.get(m);
      IbLink.await(() -> receive.test(size));
      IbLink.await(() -> send.test(null));
      assertEquals(BYTES, size[0]);
    }
    assertArrayEquals(data, IbLink.read(target, 0, data.length), "round " + round);
  }
}
