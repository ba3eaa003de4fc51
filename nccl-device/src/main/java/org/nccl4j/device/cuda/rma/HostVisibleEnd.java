package org.nccl4j.device.cuda.rma;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.bind.NativeWords;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * An end of a connection in pinned memory as the processor sees it: its words and its slots, the
 * first channel's part of them. Owned by one thread at a time.
 */
final class HostVisibleEnd {
  private final ConnectionLayout layout;
  private final NativeWords data;
  private final NativeWords credit;

  HostVisibleEnd(Gpu gpu, Connection connection, ConnectionLayout layout) {
    this.layout = layout;
    data = view(gpu, connection.data().address());
    credit = view(gpu, connection.credit().address());
  }

  private static NativeWords view(Gpu gpu, long address) {
    long host = gpu.context().get(() -> DriverLibrary.hostAddress(address, gpu));
    return new NativeWords(host);
  }

  /** Returns the number of filled steps. All data written into them are visible. */
  long tail() {
    long value = data.getLong(ConnectionLayout.TAIL);
    VarHandle.acquireFence();
    return value;
  }

  /** Returns the number of emptied steps. */
  long head() {
    long value = credit.getLong(ConnectionLayout.HEAD);
    VarHandle.acquireFence();
    return value;
  }

  /** Publishes how many steps are emptied. */
  void setHead(long step) {
    VarHandle.releaseFence();
    credit.putLong(ConnectionLayout.HEAD, step);
  }

  long getLong(long step, int offset) {
    return data.getLong(layout.simple(step) + offset);
  }

  int getInt(long step, int offset) {
    return data.getInt(layout.simple(step) + offset);
  }
}
