package org.nccl4j.transport.net;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;

/** The number of channels that proxies carry. */
class NetChannelCountTest {
  /** So many ranks, for whose hosts' cards the topology has so many channels. */
  private record Context(int nRanks, int netChannels, String asked, boolean late)
      implements TransportContext {
    @Override
    public int rank() {
      return 0;
    }

    @Override
    public List<PeerInfo> peers() {
      PeerInfo peer =
          new PeerInfo(0, "host", "", "", 0, Device.Kind.CUDA, "gpu", List.of("Socket"));
      return Collections.nCopies(nRanks, peer);
    }

    @Override
    public Device device() {
      throw new AssertionError();
    }

    @Override
    public ConnectionLayout layout() {
      throw new AssertionError();
    }

    @Override
    public List<NetProvider> nets() {
      return List.of();
    }

    @Override
    public byte[] secret() {
      return new byte[16];
    }

    @Override
    public Optional<String> setting(String name) {
      return switch (name) {
        case "NCCL_NCHANNELS_PER_NET_PEER" -> Optional.ofNullable(asked);
        case "NCCL_RUNTIME_CONNECT" -> Optional.of(late ? "1" : "0");
        default -> Optional.empty();
      };
    }

    /** Rank 1 is a neighbour. */
    @Override
    public boolean connectsLate(int peer) {
      return late && nRanks > 33 && peer > 1;
    }
  }

  @ParameterizedTest
  @CsvSource({
    "2, 0, , 2", // no topology
    "2, 1, , 2",
    "2, 5, , 5",
    "16, 16, , 16", // two machines with eight cards each
    "16, 64, , 16",
    "64, 16, , 8",
    "1024, 16, , 2",
    "1024, 16, 12, 12",
    "2, 16, 1, 1",
    "2, 0, 64, 16"
  })
  void isTheUsersOrThatOfTheCards(int nRanks, int cards, String asked, int expected) {
    Context context = new Context(nRanks, cards, asked, /* late= */ false);
    assertEquals(expected, NetChannelCount.of(context, 1));
    assertEquals(expected, NetChannelCount.of(context, 2));
  }

  /** Rings and trees keep the channels of all cards, however many ranks there are. */
  @ParameterizedTest
  @CsvSource({
    "32, 16, , 16, 16", // all are connected
    "33, 16, , 15, 15",
    "34, 16, , 16, 15",
    "40, 16, , 16, 12",
    "64, 16, , 16, 8", // eight machines with eight cards each
    "72, 16, , 16, 7",
    "4096, 16, , 16, 2",
    "4096, 8, , 8, 2",
    "4096, 0, , 2, 2",
    "4096, 16, 12, 12, 12"
  })
  void ringsHaveMoreThanPairsThatAreConnectedLate(
      int nRanks, int cards, String asked, int ring, int others) {
    Context context = new Context(nRanks, cards, asked, /* late= */ true);
    assertEquals(ring, NetChannelCount.of(context, 1));
    assertEquals(others, NetChannelCount.of(context, 2));
  }

  /** The largest handles that networks may have, of as many channels as there can be. */
  @Test
  void aConnectorHasRoomForTheHandlesOfAllChannels() {
    List<byte[]> handles = new ArrayList<>();
    for (int channel = 0; channel < NetChannelCount.MOST; channel++) {
      byte[] handle = new byte[NetListener.HANDLE_BYTES];
      handle[0] = (byte) channel;
      handles.add(handle);
    }
    byte[] joined = HandleList.join(handles);
    assertTrue(joined.length <= Connector.HANDLE_BYTES);
    List<byte[]> split = HandleList.split(joined, NetChannelCount.MOST, 1);
    for (int channel = 0; channel < NetChannelCount.MOST; channel++) {
      assertArrayEquals(handles.get(channel), split.get(channel));
    }
  }
}
