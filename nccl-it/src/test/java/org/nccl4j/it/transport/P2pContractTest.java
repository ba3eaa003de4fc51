package org.nccl4j.it.transport;

import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.Device;
import org.nccl4j.testkit.TransportContract;
import org.nccl4j.transport.p2p.P2pProvider;

final class P2pContractTest extends TransportContract {
  @Override
  protected TransportProvider provider() {
    return new P2pProvider();
  }

  @Override
  protected boolean acrossProcesses() {
    return false;
  }

  @Override
  protected List<PeerInfo> unreachable() {
    PeerInfo near = peer(1);
    return List.of(
        new Peer(near).inProcess("another").build(),
        new Peer(near).withDevice(Device.Kind.CUDA, "0000:01:00.0").build());
  }

  /** Its memory has no names in file systems. */
  @Override
  protected boolean usesNoFiles() {
    return true;
  }

  @TestFactory
  Stream<DynamicTest> contract() {
    return checks().stream().map(check -> dynamicTest(check.name(), check::run));
  }
}
