package org.nccl4j.api.exchange;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.IntToLongFunction;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.RaggedKernels;

/**
 * The numbers of the elements that a call of a ragged exchange brings a rank, in device memory.
 *
 * @param counts [nRanks]: elements from each rank
 * @param offsets [nRanks + 1]: the first element from each rank, then all elements
 */
public record RaggedResults(DeviceMemory counts, DeviceMemory offsets) implements AutoCloseable {
  /** Allocates them, zeros. */
  public static RaggedResults allocate(Device device, RaggedKernels.Sizes sizes) {
    long bytes = (long) sizes.nRanks() * sizes.countBytes();
    DeviceMemory[] made = ExchangeMemory.allocateZeros(device, bytes, bytes + sizes.countBytes());
    return new RaggedResults(made[0], made[1]);
  }

  /** Writes the numbers of a call that the host knows. */
  void write(RaggedKernels.Sizes sizes, IntToLongFunction count, IntToLongFunction offset) {
    write(counts, sizes.nRanks(), sizes.wide(), count);
    write(offsets, sizes.nRanks() + 1, sizes.wide(), offset);
  }

  private static void write(
      DeviceMemory memory, int numbers, boolean wide, IntToLongFunction number) {
    ByteBuffer bytes = ByteBuffer.allocate((int) memory.size()).order(ByteOrder.nativeOrder());
    for (int i = 0; i < numbers; i++) {
      if (wide) {
        bytes.putLong(number.applyAsLong(i));
      } else {
        bytes.putInt((int) number.applyAsLong(i));
      }
    }
    memory.write(0, bytes.flip());
  }

  @Override
  public void close() {
    counts.close();
    offsets.close();
  }
}
