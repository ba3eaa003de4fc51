package org.nccl4j.device.cuda;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.ToLongFunction;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.PinnedMemory;

/**
 * A gate made of a word in pinned memory. The stream waits until the word has reached the number of
 * times that the gate was shut. A word that is seen half written can only open the gate that is
 * being opened.
 */
final class CudaStreamGate implements KernelDevice.StreamGate {
  /** Bytes of the word. */
  static final int BYTES = Integer.BYTES;

  private final Gpu gpu;
  private final PinnedMemory word;
  private final ToLongFunction<DeviceStream> handles;
  private int shut;

  /**
   * A gate that is open.
   *
   * @param word of zeros, which is closed with the gate
   * @param handles gives the CUstream of a stream of this library
   */
  CudaStreamGate(Gpu gpu, PinnedMemory word, ToLongFunction<DeviceStream> handles) {
    this.gpu = gpu;
    this.word = word;
    this.handles = handles;
  }

  @Override
  public void shut(DeviceStream stream) {
    long handle = handles.applyAsLong(stream);
    long address = word.memory().address();
    int next = shut + 1;
    gpu.context().run(() -> DriverLibrary.streamWait(handle, address, next, false, gpu));
    shut = next;
  }

  @Override
  public void open() {
    word.put(ByteBuffer.allocate(BYTES).order(ByteOrder.nativeOrder()).putInt(shut).array());
  }

  @Override
  public void close() {
    open();
    word.close();
  }
}
