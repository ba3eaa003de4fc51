package org.nccl4j.it.perf.rank;

import java.io.Serializable;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;

/**
 * The arguments of a thread or process of ranks before its first order.
 *
 * @param rank its first rank
 * @param nRanks all ranks of all
 * @param drives ranks of this thread, from its first on
 * @param bufferBytes the largest buffer that any order will use
 * @param kind of device; on CUDA rank r has GPU r
 * @param libnccl its file, where it is compared with; else empty
 * @param registration of the buffers
 * @param urgent whether operations come before kernels of other streams, on GPUs
 */
public record RankSpec(
    int rank,
    int nRanks,
    int drives,
    long bufferBytes,
    Device.Kind kind,
    String libnccl,
    RegistrationMode registration,
    boolean urgent)
    implements Serializable {
  /** Ranks with ordinary streams. */
  public RankSpec(
      int rank,
      int nRanks,
      int drives,
      long bufferBytes,
      Device.Kind kind,
      String libnccl,
      RegistrationMode registration) {
    this(rank, nRanks, drives, bufferBytes, kind, libnccl, registration, /* urgent= */ false);
  }

  /** One rank on the host device. */
  public static RankSpec host(int rank, int nRanks, long bufferBytes) {
    return new RankSpec(rank, nRanks, 1, bufferBytes, Device.Kind.HOST, "", RegistrationMode.NOT);
  }

  /** The same as if its ranks were others. */
  public RankSpec at(int newRank, int newDrives) {
    return new RankSpec(
        newRank, nRanks, newDrives, bufferBytes, kind, libnccl, registration, urgent);
  }

  /** The device of a rank. */
  Device device(int ofRank) {
    return kind == Device.Kind.HOST ? Devices.host() : Devices.cuda().device(ofRank);
  }

  /** The devices of all ranks. */
  List<Device> devices() {
    return IntStream.range(0, nRanks).mapToObj(this::device).toList();
  }
}
