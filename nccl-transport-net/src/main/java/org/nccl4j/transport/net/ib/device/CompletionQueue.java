package org.nccl4j.transport.net.ib.device;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.lang.ref.Reference;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/** The queue in which one connection's transfers complete. Owned by one thread at a time. */
public final class CompletionQueue implements AutoCloseable {
  private static final int BATCH = 16;

  private final OpenDevice device;
  private final long handle;
  private final long pollFunction;
  private final Offheap completions = new Offheap(BATCH * WC_BYTES);
  private boolean closed;

  public CompletionQueue(OpenDevice device, int entries) {
    this.device = device;
    handle = device.verbs().createCompletionQueue(device.context(), entries);
    pollFunction = device.verbs().pollFunction(handle);
  }

  public long handle() {
    return handle;
  }

  /** Takes up to 16 completions, which the other methods then show by index, and says how many. */
  @HotPath
  public int poll() {
    int count = Verbs.poll(pollFunction, handle, BATCH, completions.address());
    Reference.reachabilityFence(completions);
    if (count < 0) {
      throw broken(count);
    }
    return count;
  }

  private SystemErrorException broken(int code) {
    return new SystemErrorException(
        ErrorId.INFINIBAND,
        "InfiniBand: ibv_poll_cq on device %s failed: %d".formatted(device.name(), code),
        "see the kernel's log (dmesg) for the adapter");
  }

  public long id(int i) {
    return completions.getLong(i * WC_BYTES + WC_WR_ID);
  }

  public int status(int i) {
    return completions.getInt(i * WC_BYTES + WC_STATUS);
  }

  public int opcode(int i) {
    return completions.getInt(i * WC_BYTES + WC_OPCODE);
  }

  public int vendorError(int i) {
    return completions.getInt(i * WC_BYTES + WC_VENDOR_ERR);
  }

  public int immediate(int i) {
    return Integer.reverseBytes(completions.getInt(i * WC_BYTES + WC_IMM_DATA));
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      device.verbs().destroyCompletionQueue(handle);
      device.events().forget(handle); // it may come to mean another
    }
  }
}
