package org.nccl4j.transport.net.memory;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.memory.PinnedRegion;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.support.CloseAll;

/**
 * The part of an end's host memory that a GPU's kernels see. Only the memory that the carried
 * channels use is pinned: the words and the first part of each slot.
 */
public final class PinnedParts implements AutoCloseable {
  private static final long PAGE = 4096;

  private final CudaDevice device;
  private final MappedRegion region;
  private final List<PinnedRegion> parts = new ArrayList<>();

  /**
   * Pins.
   *
   * @param region both regions of the connection, the data's first
   * @param channels that are carried
   * @param lines whether they are in LL too
   * @throws org.nccl4j.device.CudaException if the driver pins no more memory
   */
  public PinnedParts(
      CudaDevice device,
      MappedRegion region,
      ConnectionLayout layout,
      int channels,
      boolean lines) {
    this.device = device;
    this.region = region;
    boolean complete = false;
    try {
      pin(0, layout.ll(0));
      pin(layout.dataBytes(), ConnectionLayout.CREDIT_BYTES);
      for (int slot = 0; slot < ConnectionLayout.STEPS; slot++) {
        pin(layout.simple(slot), HostEndMemory.used(layout, channels));
        if (lines) {
          pin(layout.ll(slot), GpuLineSlots.used(layout, channels));
        }
      }
      // A device sees pinned memory where the process does, or elsewhere, each region on its own.
      long shift = parts.get(0).address() - parts.get(0).hostAddress();
      if (!parts.stream().allMatch(each -> each.address() - each.hostAddress() == shift)) {
        close();
        pin(0, region.bytes());
      }
      complete = true;
    } finally {
      if (!complete) {
        close();
      }
    }
  }

  private void pin(long offset, long bytes) {
    long begin = offset / PAGE * PAGE;
    long end = Math.min(region.bytes(), (offset + bytes + PAGE - 1) / PAGE * PAGE);
    parts.add(PinnedRegion.of(device.gpu(), region.address() + begin, end - begin));
  }

  /** All of it, of which the device may touch what is used. */
  public DeviceMemory seen() {
    return device.wrap(parts.get(0).address(), region.bytes());
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    parts.forEach(part -> all.take(part::close));
    parts.clear();
    all.end();
  }
}
