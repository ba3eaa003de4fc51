package org.nccl4j.transport.net.socket;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.transport.net.socket.link.DataSocketCount;

/** The number of a connection's sockets: the user's, the cloud's, or by the interface's speed. */
class DataSocketCountTest {
  private static final DataSocketCount NONE = new DataSocketCount(0, 0, false);
  private static final DataSocketCount SHARED = new DataSocketCount(0, 4, true);

  @TempDir private Path pci;

  private static SocketSettings settings(Map<String, String> values) {
    return SocketSettings.of(
        new NetContext() {
          @Override
          public int rank() {
            return 0;
          }

          @Override
          public byte[] secret() {
            return new byte[16];
          }

          @Override
          public Optional<String> setting(String name) {
            return Optional.ofNullable(values.get(name));
          }
        });
  }

  private Nic nic(String vendor, int megabits) throws IOException {
    Files.writeString(pci.resolve("vendor"), vendor + "\n");
    return new Nic("eth9", InetAddress.getLoopbackAddress(), megabits, pci.toString());
  }

  private static DataSocketCount of(Map<String, String> set, Nic nic, boolean helped) {
    return settings(set).dataSockets(nic, helped ? 4 : 0);
  }

  @Test
  void oneThreadFillsASlowCard() throws IOException {
    assertEquals(NONE, of(Map.of(), nic("0x15b3", 10_000), true));
    assertEquals(SHARED, of(Map.of(), nic("0x15b3", 25_000), true));
    assertEquals(NONE, of(Map.of(), nic("0x15b3", 100_000), false));
  }

  @Test
  void noCardIsAtAVirtualInterface() {
    Nic virtual = new Nic("veth", InetAddress.getLoopbackAddress(), 10_000, "");
    assertEquals(SHARED, of(Map.of(), virtual, true));
    assertEquals(NONE, of(Map.of(), virtual, false));
  }

  @Test
  void cloudsLimitASingleStream() throws IOException {
    assertEquals(new DataSocketCount(2, 16, false), of(Map.of(), nic("0x1d0f", 100_000), true));
    assertEquals(new DataSocketCount(4, 4, false), of(Map.of(), nic("0x1ae0", 10_000), false));
  }

  /** Numbers that the user has not set are lowered. */
  @Test
  void aCloudsNumberAndASettingMakeNoMoreSocketsThanThereMayBe() throws IOException {
    Nic aws = nic("0x1d0f", 100_000);
    assertEquals(
        new DataSocketCount(8, 64, false), of(Map.of("NCCL_SOCKET_NTHREADS", "8"), aws, true));
    assertEquals(
        new DataSocketCount(9, 63, false), of(Map.of("NCCL_SOCKET_NTHREADS", "9"), aws, true));
    assertEquals(
        new DataSocketCount(16, 64, false), of(Map.of("NCCL_SOCKET_NTHREADS", "16"), aws, true));
    assertEquals(
        new DataSocketCount(1, 33, false), of(Map.of("NCCL_NSOCKS_PERTHREAD", "33"), aws, true));
    Nic google = nic("0x1ae0", 100_000);
    assertEquals(
        new DataSocketCount(3, 60, false), of(Map.of("NCCL_NSOCKS_PERTHREAD", "20"), google, true));
    assertEquals(
        new DataSocketCount(1, 64, false), of(Map.of("NCCL_NSOCKS_PERTHREAD", "64"), google, true));
  }

  @Test
  void theUserDecides() throws IOException {
    Nic fast = nic("0x15b3", 100_000);
    assertEquals(NONE, of(Map.of("NCCL_SOCKET_NTHREADS", "0"), fast, true));
    assertEquals(
        new DataSocketCount(3, 6, false),
        of(Map.of("NCCL_SOCKET_NTHREADS", "3", "NCCL_NSOCKS_PERTHREAD", "2"), fast, true));
  }

  @Test
  void theListenerDecidesForBothEnds() {
    assertEquals(SHARED, SHARED.withLanes(4));
    assertEquals(new DataSocketCount(0, 0, true), SHARED.withLanes(0));
    assertEquals(new DataSocketCount(1, 1, false), NONE.withLanes(1));
    assertEquals(new DataSocketCount(2, 5, false), new DataSocketCount(2, 4, false).withLanes(5));
  }
}
