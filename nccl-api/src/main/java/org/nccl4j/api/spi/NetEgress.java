package org.nccl4j.api.spi;

import java.util.List;

/**
 * The network device through which data leave a host, and the rank that sends them (PXN). If that
 * rank is not the sender, the sender's kernels write into memory of that rank, whose proxy sends
 * from there ({@link PxnTransport}).
 *
 * @param rank of the host, nearest to the device
 * @param devices the names that networks may have for the device, best first
 */
public record NetEgress(int rank, List<String> devices) {
  /** Copies the list. */
  public NetEgress {
    devices = List.copyOf(devices);
  }
}
