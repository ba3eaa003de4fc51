package org.nccl4j.transport.net;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.ConnectionLayout;

/** The number of channels that proxies carry. */
class NetChannelCountTest {
  /** So many ranks, for whose hosts' cards the topology has so many channels. */
  private record Context(int nRanks, int netChannels, String asked, List<String> names)
      implements TransportContext {
    private Context(int nRanks, int netChannels, String asked) {
      this(nRanks, netChannels, asked, List.of("Socket"));
    }

    private static PeerInfo peer(List<String> names) {
      return new PeerInfo(0, "host", "", "", 0, Device.Kind.CUDA, "gpu", names);
    }

    @Override
    public int rank() {
      return 0;
    }

    @Override
    public List<PeerInfo> peers() {
      List<PeerInfo> peers = new ArrayList<>(Collections.nCopies(nRanks, peer(List.of("Socket"))));
      peers.set(0, peer(names));
      peers.set(1, peer(names));
      return peers;
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
      return name.equals("NCCL_NCHANNELS_PER_NET_PEER")
          ? Optional.ofNullable(asked)
          : Optional.empty();
    }

    /** Rank 1 is a neighbour. */
    @Override
    public boolean isNeighbour(int peer) {
      return peer == 1;
    }
  }

  /**
   * Rings, trees and the like have the channels of all cards, however many ranks there are; other
   * pairs have fewer.
   */
  @ParameterizedTest
  @CsvSource({
    "3, 0, , 2, 2", // no topology
    "3, 1, , 2, 2",
    "3, 5, , 5, 5",
    "16, 16, , 16, 16", // two machines with eight cards of 100 Gbit/s each
    "16, 77, , 32, 32", // of 400 Gbit/s
    "24, 77, , 32, 21",
    "32, 77, , 32, 16",
    "33, 16, , 16, 15",
    "64, 16, , 16, 8",
    "1024, 16, , 16, 2",
    "4096, 8, , 8, 2",
    "4096, 0, , 2, 2",
    "4096, 77, , 32, 2",
    "1024, 16, 12, 12, 12",
    "3, 16, 1, 1, 1",
    "3, 0, 64, 32, 32"
  })
  void neighboursHaveThoseOfTheCards(
      int nRanks, int cards, String asked, int neighbours, int others) {
    Context context = new Context(nRanks, cards, asked);
    assertEquals(neighbours, NetChannelCount.of(context, 1));
    assertEquals(others, NetChannelCount.of(context, 2));
    assertEquals(others, NetChannelCount.of(context, nRanks - 1));
  }

  /** Handles of other authors' networks may have nothing in common; a user may know better. */
  @ParameterizedTest
  @CsvSource({"Plugin, 77, , 16", "Fast, 77, , 16", "Plugin, 5, , 5", "Plugin, 77, 32, 32"})
  void pluginsHaveFewerUnlessTheUserAsksForMore(
      String name, int cards, String asked, int expected) {
    Context context = new Context(4, cards, asked, List.of(name, "IB", "Socket"));
    assertEquals(expected, NetChannelCount.of(context, 1));
    int others = asked == null ? Math.min(cards, 32) : expected;
    assertEquals(others, NetChannelCount.of(context, 2), "sockets are what both have");
  }

  /** The words of the last carried channel are the last of the connection. */
  @Test
  void carriedChannelsHaveRoomForTheirWords() {
    long last = ConnectionLayout.word(NetChannelCount.MOST - 1);
    for (int step = 0; step < ConnectionLayout.STEPS; step++) {
      assertTrue(last + ConnectionLayout.exposedFrom(step) + 8 <= ConnectionLayout.CREDIT_BYTES);
      assertTrue(last + ConnectionLayout.placed(step) + 8 <= ConnectionLayout.CREDIT_BYTES);
      assertTrue(last + ConnectionLayout.wanted(step) + 16 <= ConnectionLayout.CREDIT_BYTES);
      assertTrue(last + ConnectionLayout.WORD_STRIDE <= ConnectionLayout.exposedFrom(0));
    }
  }

  /** The largest handles that networks may have, of as many channels as there can be. */
  @Test
  void aConnectorHasRoomForTheHandlesOfAllChannels() {
    Random random = new Random(7);
    byte[] address = new byte[NetListener.HANDLE_BYTES];
    random.nextBytes(address);
    List<byte[]> handles = new ArrayList<>();
    for (int channel = 0; channel < NetChannelCount.MOST; channel++) {
      byte[] handle = address.clone();
      byte[] own = new byte[36]; // a port and a number, as far apart as in NCCL's own plug-ins
      random.nextBytes(own);
      System.arraycopy(own, 0, handle, 10, own.length);
      handles.add(handle);
    }
    assertJoined(handles);
    assertTrue(HandleList.join(handles).length < 1500, "they are alike");
  }

  @Test
  void handlesThatAreEqualOrOfOtherLengthsAreJoined() {
    byte[] longest = new byte[NetListener.HANDLE_BYTES];
    assertJoined(List.of(longest, longest, new byte[0], new byte[] {1, 2, 2}, new byte[] {1, 2}));
    assertJoined(List.of(new byte[] {1, 2, 1, 2}, new byte[] {1, 2}, new byte[] {1, 2, 1, 1, 2}));
    assertJoined(List.of());
    Random random = new Random(8);
    for (int round = 0; round < 1000; round++) {
      List<byte[]> handles = new ArrayList<>();
      for (int channel = random.nextInt(9); channel > 0; channel--) {
        byte[] handle = new byte[random.nextInt(8)];
        for (int at = 0; at < handle.length; at++) {
          handle[at] = (byte) random.nextInt(2);
        }
        handles.add(handle);
      }
      assertJoined(handles);
    }
  }

  private static void assertJoined(List<byte[]> handles) {
    byte[] joined = HandleList.join(handles);
    assertTrue(joined.length <= Connector.HANDLE_BYTES);
    List<byte[]> split = HandleList.split(joined, handles.size(), 1);
    for (int channel = 0; channel < handles.size(); channel++) {
      assertArrayEquals(handles.get(channel), split.get(channel));
    }
  }

  /** Channels take turns with three devices, whose addresses have nothing in common. */
  @Test
  void handlesOfSeveralDevicesInTurnHaveRoom() {
    Random random = new Random(10);
    byte[][] devices = new byte[3][NetListener.HANDLE_BYTES];
    for (byte[] device : devices) {
      random.nextBytes(device);
    }
    List<byte[]> handles = new ArrayList<>();
    for (int channel = 0; channel < NetChannelCount.MOST; channel++) {
      byte[] handle = devices[channel % devices.length].clone();
      byte[] own = new byte[36];
      random.nextBytes(own);
      System.arraycopy(own, 0, handle, 10, own.length);
      handles.add(handle);
    }
    assertJoined(handles);
  }

  /** Ranks choose by them which of them are neighbours, before they compare their settings. */
  @Test
  void otherNumbersOfChannelsNameTheSettingsThatDecide() {
    byte[] joined = HandleList.join(List.of(new byte[] {1}, new byte[] {1}));
    InvalidUsageException refused =
        assertThrows(InvalidUsageException.class, () -> HandleList.split(joined, 3, 4));
    for (String name :
        List.of(
            "NCCL_NCHANNELS_PER_NET_PEER",
            "NCCL_ALGO",
            "NCCL_PAT_ENABLE",
            "NCCL_NVLS_ENABLE",
            "NCCL4J_NVLS_MODE",
            "NCCL_RUNTIME_CONNECT")) {
      assertTrue(refused.getMessage().contains(name), refused::getMessage);
    }
  }

  /** Such as a plug-in's with keys of their own. */
  @Test
  void handlesWithNothingInCommonAreRefusedWithTheRemedy() {
    Random random = new Random(9);
    List<byte[]> handles = new ArrayList<>();
    for (int channel = 0; channel < NetChannelCount.MOST; channel++) {
      byte[] handle = new byte[NetListener.HANDLE_BYTES];
      random.nextBytes(handle);
      handles.add(handle);
    }
    InvalidUsageException refused =
        assertThrows(InvalidUsageException.class, () -> HandleList.join(handles));
    assertTrue(refused.getMessage().contains("handles for 32 channels"), refused::getMessage);
    Matcher remedy =
        Pattern.compile("NCCL_NCHANNELS_PER_NET_PEER=(\\d+)").matcher(refused.getMessage());
    assertTrue(remedy.find(), refused::getMessage);
    int room = Integer.parseInt(remedy.group(1));
    assertTrue(room > 16 && room < NetChannelCount.MOST, refused::getMessage);
    assertJoined(handles.subList(0, room));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "00",
        "0005",
        "000500",
        "00050000",
        "00 03 01 00 01 02",
        "00 02 00 00 01 02 01 02 02 01",
        "01 00 00 00",
        "00 02 00 00 01 02 02 02 02 00"
      })
  void bytesThatAreNoListAreRefused(String hex) {
    byte[] bytes = HexFormat.of().parseHex(hex.replace(" ", ""));
    InvalidUsageException refused =
        assertThrows(InvalidUsageException.class, () -> HandleList.split(bytes, 1, 4));
    assertTrue(refused.getMessage().contains("rank 4 sent"), refused::getMessage);
  }
}
