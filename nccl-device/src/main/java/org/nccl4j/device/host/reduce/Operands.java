package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Places in memory whose elements are combined, in the order of the combination. Grows when it has
 * never held as many. Owned by one thread at a time.
 */
public final class Operands {
  private HostMemory[] memories = new HostMemory[8];
  private long[] offsets = new long[8];
  private boolean[] unprepared = new boolean[8];
  private int size;
  private int numberUnprepared;

  @HotPath
  public void clear() {
    size = 0;
    numberUnprepared = 0;
  }

  /** Adds elements that are as they enter the combination. */
  @HotPath
  public void add(HostMemory memory, long offset) {
    add(memory, offset, false);
  }

  /** Adds a rank's own elements, which are to be prepared. */
  @HotPath
  public void addUnprepared(HostMemory memory, long offset) {
    add(memory, offset, true);
  }

  @HotPath
  private void add(HostMemory memory, long offset, boolean prepares) {
    if (size == memories.length) {
      grow();
    }
    memories[size] = memory;
    offsets[size] = offset;
    unprepared[size] = prepares;
    numberUnprepared += prepares ? 1 : 0;
    size++;
  }

  private void grow() {
    memories = Arrays.copyOf(memories, 2 * size);
    offsets = Arrays.copyOf(offsets, 2 * size);
    unprepared = Arrays.copyOf(unprepared, 2 * size);
  }

  /** All operands are to be prepared. */
  @HotPath
  void prepareAll() {
    for (int i = 0; i < size; i++) {
      unprepared[i] = true;
    }
    numberUnprepared = size;
  }

  @HotPath
  public int size() {
    return size;
  }

  /** True if there are two operands, and both are prepared. */
  @HotPath
  boolean isPair() {
    return size == 2 && numberUnprepared == 0;
  }

  @HotPath
  boolean isUnprepared(int operand) {
    return unprepared[operand];
  }

  @HotPath
  HostMemory memory(int operand) {
    return memories[operand];
  }

  @HotPath
  long offset(int operand) {
    return offsets[operand];
  }

  /** The window with the bytes of an operand from a place on, which are at {@link #index}. */
  @HotPath
  ByteBuffer window(int operand, long at) {
    return memories[operand].window(offsets[operand] + at);
  }

  @HotPath
  int index(int operand, long at) {
    return memories[operand].index(offsets[operand] + at);
  }
}
