package org.nccl4j.device.cuda;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.kernel.PinnedMemory;
import org.nccl4j.device.kernel.StreamGate;

/**
 * A gate made of a word in pinned memory. The stream waits until the word has reached the number of
 * times that the gate was shut. A word that is seen half written can only open the gate that is
 * being opened.
 */
final class CudaStreamGate implements StreamGate {
  private final CudaDevice device;
  private final PinnedMemory word;
  private int shut;

  CudaStreamGate(CudaDevice device) {
    this.device = device;
    this.word = device.hostVisible(Integer.BYTES);
  }

  @Override
  public void shut(DeviceStream stream) {
    long handle = ((CudaStream) stream).open().handle();
    long address = word.memory().address();
    int next = shut + 1;
    device
        .gpu()
        .context()
        .run(() -> DriverLibrary.streamWait(handle, address, next, false, device.gpu()));
    shut = next;
  }

  @Override
  public void open() {
    word.put(
        ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.nativeOrder()).putInt(shut).array());
  }

  @Override
  public void close() {
    open();
    word.close();
  }
}
