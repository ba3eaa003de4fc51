package org.nccl4j.api.exchange;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.ExpertSizes;

/** The memory of an exchange with experts that its user reads: what a dispatch brings a rank. */
public record ExpertBuffers(
    DeviceMemory received, DeviceMemory scales, DeviceMemory counts, DeviceMemory offsets)
    implements AutoCloseable {
  /** Allocates for the most rows that a rank can receive. */
  public static ExpertBuffers allocate(Device device, ExpertSizes sizes) {
    long rows = sizes.rows();
    long local = sizes.localExperts();
    DeviceMemory[] made =
        ExchangeMemory.allocateAll(
            device,
            rows * sizes.wireBytes(),
            rows * sizes.scaleBytes(),
            local * sizes.nRanks() * Integer.BYTES,
            (local + 1) * Integer.BYTES);
    return new ExpertBuffers(made[0], made[1], made[2], made[3]);
  }

  /** Writes the counts and offsets of a dispatch from the host. */
  void write(ExpertRows rows, int nRanks) {
    ByteBuffer ints =
        ByteBuffer.allocate((int) Math.max(counts.size(), offsets.size()))
            .order(ByteOrder.nativeOrder());
    for (int expert = 0; expert < rows.local(); expert++) {
      for (int source = 0; source < nRanks; source++) {
        ints.putInt(rows.received(expert, source));
      }
    }
    counts.write(0, ints.flip());
    ints.clear();
    for (int expert = 0; expert < rows.local(); expert++) {
      ints.putInt(rows.receivedFirst(expert, 0));
    }
    offsets.write(0, ints.putInt(rows.allReceived()).flip());
  }

  @Override
  public void close() {
    received.close();
    scales.close();
    counts.close();
    offsets.close();
  }
}
