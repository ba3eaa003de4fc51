package org.nccl4j.device.cuda.memory;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.PinnedWords;
import org.nccl4j.device.kernel.PinnedMemory;

/** Page-locked memory of the host, mapped into the device's addresses; zeros at first. */
public final class CudaPinnedMemory implements PinnedMemory {
  private final PinnedWords words;
  private final NativeWords bytes;
  private final DeviceMemory memory;

  public CudaPinnedMemory(Gpu gpu, long size) {
    words = PinnedWords.allocate(gpu, size);
    bytes = new NativeWords(words.host());
    memory = CudaMemory.wrap(gpu, words.address(), size);
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  @Override
  public void put(byte[] from) {
    bytes.put(0, from);
    VarHandle.fullFence(); // before whatever launches the kernel that reads it
  }

  @Override
  public byte[] get() {
    VarHandle.fullFence(); // after the stream has said that the kernel has ended
    byte[] to = new byte[(int) memory.size()];
    bytes.get(0, to);
    return to;
  }

  @Override
  public void close() {
    words.close();
  }
}
