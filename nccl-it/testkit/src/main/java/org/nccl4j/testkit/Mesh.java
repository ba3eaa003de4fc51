package org.nccl4j.testkit;

import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportProvider;

/** The transports of some ranks of this process. */
final class Mesh implements AutoCloseable {
  private final List<PeerInfo> peers;
  private final List<Transport> transports;

  Mesh(CheckedTransport checked, int nRanks) {
    TransportProvider provider = checked.provider();
    peers = ContractContext.ofThisProcess(0, nRanks, checked.settings()).peers();
    transports =
        IntStream.range(0, nRanks)
            .mapToObj(
                rank ->
                    provider.open(ContractContext.ofThisProcess(rank, nRanks, checked.settings())))
            .toList();
  }

  Transport transport(int rank) {
    return transports.get(rank);
  }

  PeerInfo peer(int rank) {
    return peers.get(rank);
  }

  @Override
  public void close() {
    transports.forEach(Transport::close);
  }
}
