package org.nccl4j.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;

/** A communicator that exists only as far as a transport sees it. */
record ContractContext(int rank, List<PeerInfo> peers, byte[] secret, Map<String, String> settings)
    implements TransportContext {
  /** Large slots, so that what leaks is seen, and other sizes than the engine's. */
  static final ConnectionLayout LAYOUT = new ConnectionLayout(4096, 0, 1 << 20);

  /** A rank among some of this process. */
  static ContractContext ofThisProcess(int rank, int nRanks, Map<String, String> settings) {
    List<PeerInfo> peers = new ArrayList<>();
    for (int peer = 0; peer < nRanks; peer++) {
      peers.add(peer(peer, "this process"));
    }
    return new ContractContext(rank, peers, commonSecret(), settings);
  }

  /** One of two ranks, each in its own process. */
  static ContractContext ofTwoProcesses(int rank, Map<String, String> settings) {
    List<PeerInfo> peers = List.of(peer(0, "parent"), peer(1, "child"));
    return new ContractContext(rank, peers, commonSecret(), settings);
  }

  static PeerInfo peer(int rank, String process) {
    return new PeerInfo(
        rank, "contract host", "contract namespace", process, user(), Device.Kind.HOST, "host");
  }

  private static long user() {
    try {
      Number user = (Number) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
      return Integer.toUnsignedLong(user.intValue());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static byte[] commonSecret() {
    return "of the contract.".getBytes(StandardCharsets.US_ASCII);
  }

  @Override
  public List<NetProvider> nets() {
    return List.of();
  }

  @Override
  public byte[] secret() {
    return secret.clone();
  }

  @Override
  public Device device() {
    return Devices.host();
  }

  @Override
  public ConnectionLayout layout() {
    return LAYOUT;
  }

  @Override
  public Optional<String> setting(String name) {
    return Optional.ofNullable(settings.get(name));
  }
}
