package org.nccl4j.device.host.kernel;

import java.nio.ByteBuffer;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.CollectiveWork;

/**
 * One rank's buffers of a collective, in place or not, at an odd offset, inside poisoned memory
 * whose edges must not change.
 */
final class Buffers implements AutoCloseable {
  private static final int GUARD = 64;
  private static final byte POISON = (byte) 0xA5;

  final DeviceMemory send;
  final DeviceMemory recv;
  private final DeviceMemory recvOwner;
  private final DeviceMemory sendOwner;
  private final long begin;
  private final long end;

  Buffers(Device device, CollectiveWork work, int rank, int n, boolean inPlace, int shift) {
    long part = work.count() * work.type().bytes();
    long sendBytes = sends(work, n) * part;
    long recvBytes = receives(work, n) * part;
    long whole = Math.max(sendBytes, recvBytes);
    recvOwner = poisoned(device, (inPlace ? whole : recvBytes) + shift + 2 * GUARD);
    sendOwner = inPlace ? recvOwner : poisoned(device, sendBytes + shift + 2 * GUARD);
    long own = GUARD + shift + rank * part;
    send = sendOwner.slice(inPlace && sendBytes < whole ? own : GUARD + shift, sendBytes);
    recv = recvOwner.slice(inPlace && recvBytes < whole ? own : GUARD + shift, recvBytes);
    begin = GUARD + shift;
    end = begin + (inPlace ? whole : recvBytes);
  }

  /** Parts of {@code count} elements that a rank sends. */
  static int sends(CollectiveWork work, int n) {
    return work.operation().sendParts(n, /* isRoot= */ true);
  }

  /** Parts of {@code count} elements that a rank receives. */
  static int receives(CollectiveWork work, int n) {
    return work.operation().recvParts(n, /* isRoot= */ true);
  }

  private static DeviceMemory poisoned(Device device, long bytes) {
    DeviceMemory memory = device.memAlloc(bytes);
    memory.fill(POISON);
    return memory;
  }

  ByteBuffer received() {
    ByteBuffer data = ByteBuffer.allocate((int) recv.size());
    recv.read(0, data);
    return data.flip();
  }

  /** True if the bytes around the receive buffer are unchanged. */
  boolean edgesAreIntact() {
    ByteBuffer all = ByteBuffer.allocate((int) recvOwner.size());
    recvOwner.read(0, all);
    return isPoison(all, 0, (int) begin) && isPoison(all, (int) end, all.capacity());
  }

  private static boolean isPoison(ByteBuffer all, int from, int to) {
    for (int i = from; i < to; i++) {
      if (all.get(i) != POISON) {
        return false;
      }
    }
    return true;
  }

  @Override
  public void close() {
    recvOwner.close();
    sendOwner.close();
  }
}
