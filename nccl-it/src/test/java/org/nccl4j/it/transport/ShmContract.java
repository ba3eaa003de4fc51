package org.nccl4j.it.transport;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.Device;
import org.nccl4j.testkit.TransportContract;
import org.nccl4j.transport.p2p.ShmProvider;

/** SHM under the contract, whatever its memory comes from. */
abstract class ShmContract extends TransportContract {
  /** Where the sockets are; see the package org.nccl4j.device.shm. */
  static Path sockets() throws IOException {
    Object user = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    return Path.of("/dev/shm", "nccl4j-" + user);
  }

  @Override
  protected TransportProvider provider() {
    return new ShmProvider();
  }

  @Override
  protected List<PeerInfo> unreachable() {
    PeerInfo near = peer(1);
    return List.of(
        new Peer(near).onHost("another host").build(),
        new Peer(near).inNamespace("another namespace").build(),
        new Peer(near).ofUser(near.userId() + 1).build(),
        new Peer(near).withDevice(Device.Kind.CUDA, "0000:01:00.0").build());
  }

  @Override
  protected List<Path> filesOf(long processId) {
    try (Stream<Path> files = Files.list(sockets())) {
      return files
          .filter(file -> file.getFileName().toString().startsWith(processId + "-"))
          .sorted()
          .toList();
    } catch (NoSuchFileException e) {
      return List.of();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
