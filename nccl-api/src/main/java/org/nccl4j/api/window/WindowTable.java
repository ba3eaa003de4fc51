package org.nccl4j.api.window;

import java.util.Arrays;
import java.util.Comparator;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.RmaSpace;

/**
 * The windows of a rank, sorted by the address at which the user sees them. Windows may overlap:
 * any that holds all of a range can be used. Written by one thread at a time, read by any.
 */
final class WindowTable implements RmaSpace.Windows {
  /**
   * A snapshot for readers.
   *
   * @param windows by address
   * @param begins their addresses
   * @param reaches the highest end of a window and all before it
   */
  private record Sorted(RegisteredWindow[] windows, long[] begins, long[] reaches) {}

  private volatile Sorted sorted = new Sorted(new RegisteredWindow[0], new long[0], new long[0]);

  /** The highest number of a window that is or was here; set after it is. */
  private volatile long newest;

  void add(RegisteredWindow window) {
    RegisteredWindow[] more = Arrays.copyOf(sorted.windows, sorted.windows.length + 1);
    more[more.length - 1] = window;
    sort(more);
    newest = Math.max(newest, window.number());
  }

  void remove(RegisteredWindow window) {
    sort(Arrays.stream(sorted.windows).filter(w -> w != window).toArray(RegisteredWindow[]::new));
  }

  private void sort(RegisteredWindow[] windows) {
    Arrays.sort(windows, Comparator.comparingLong(w -> w.view().address()));
    long[] begins = new long[windows.length];
    long[] reaches = new long[windows.length];
    long reach = Long.MIN_VALUE;
    for (int w = 0; w < windows.length; w++) {
      begins[w] = windows[w].view().address();
      reach = Math.max(reach, begins[w] + windows[w].view().size());
      reaches[w] = reach;
    }
    sorted = new Sorted(windows, begins, reaches);
  }

  @HotPath
  boolean isEmpty() {
    return sorted.windows.length == 0;
  }

  /**
   * A window that holds all of a range of addresses, or null.
   *
   * @param forCollectives passes over windows that collectives do not use
   */
  @HotPath
  RegisteredWindow find(long address, long bytes, boolean forCollectives) {
    Sorted now = sorted;
    int place = Arrays.binarySearch(now.begins, address);
    for (int w = last(now, place, address); w >= 0 && now.reaches[w] - address >= bytes; w--) {
      RegisteredWindow window = now.windows[w];
      if (address - now.begins[w] <= window.view().size() - bytes
          && (window.isForCollectives() || !forCollectives)) {
        return window;
      }
    }
    return null;
  }

  /** The last window that begins at or before an address. */
  @HotPath
  private static int last(Sorted now, int place, long address) {
    if (place < 0) {
      return -place - 2;
    }
    int last = place;
    while (last + 1 < now.begins.length && now.begins[last + 1] == address) {
      last++;
    }
    return last;
  }

  boolean has(RegisteredWindow window) {
    for (RegisteredWindow each : sorted.windows) {
      if (each == window) {
        return true;
      }
    }
    return false;
  }

  @Override
  public boolean isToCome(long number) {
    return number > newest;
  }

  @Override
  public DeviceMemory memory(long number) {
    for (RegisteredWindow window : sorted.windows) {
      if (window.number() == number) {
        return window.memory();
      }
    }
    return null;
  }

  RegisteredWindow[] all() {
    return sorted.windows.clone();
  }
}
