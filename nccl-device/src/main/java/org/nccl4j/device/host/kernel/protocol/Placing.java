package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.Connection;
import org.nccl4j.device.kernel.Connection.PlacedSteps;

/**
 * The words by which a kernel and the proxy of a connection between hosts agree that the proxy
 * receives a step's data in the kernel's buffer. They are in the receiving end's data side, among
 * those of channels that the host does not use:
 *
 * <pre>
 * 384  wanted: s + 1 for step s, stored last; of the kernel
 * 392  the address for its data
 * 400  bytes of the data
 * 408  address of the buffer
 * 416  bytes of the buffer
 * 512  placed: s + 1 once the data of step s are there, before the tail; of the proxy
 * 640  1 if there is a proxy that places data; of the proxy
 * </pre>
 *
 * <p>A step's number comes once, so nobody takes back a word. A kernel that fails has the proxy end
 * its connection before the buffer is returned.
 */
public final class Placing implements PlacedSteps {
  private static final long WANTED = 384;
  private static final long ADDRESS = 392;
  private static final long BYTES = 400;
  private static final long BUFFER = 408;
  private static final long BUFFER_BYTES = 416;
  private static final long PLACED = 512;
  private static final long PLACES = 640;

  private final HostMemory data;

  /** The proxy's side, which tells kernels that it places data. */
  public Placing(Connection connection) {
    data = HostMemory.of(connection.data());
    AtomicWords.storeRelease(data, PLACES, 1);
  }

  /** True if a connection's proxy places data. */
  @HotPath
  static boolean isPossible(HostMemory data) {
    return AtomicWords.loadAcquire(data, PLACES) != 0;
  }

  /** A kernel wants a step's data in its buffer. */
  @HotPath
  static void want(HostMemory data, long step, HostMemory target, long offset, int bytes) {
    AtomicWords.storeOpaque(data.window(ADDRESS), data.index(ADDRESS), target.address() + offset);
    AtomicWords.storeOpaque(data.window(BYTES), data.index(BYTES), bytes);
    AtomicWords.storeOpaque(data.window(BUFFER), data.index(BUFFER), target.address());
    AtomicWords.storeOpaque(data.window(BUFFER_BYTES), data.index(BUFFER_BYTES), target.size());
    AtomicWords.storeRelease(data, WANTED, step + 1);
  }

  /** True if the data of a step that has come are in the kernel's buffer. */
  @HotPath
  static boolean isPlaced(HostMemory data, long step) {
    return AtomicWords.loadAcquire(data, PLACED) == step + 1;
  }

  @Override
  @HotPath
  public long wanted() {
    return AtomicWords.loadAcquire(data, WANTED) - 1;
  }

  @Override
  @HotPath
  public long address() {
    return AtomicWords.loadOpaque(data.window(ADDRESS), data.index(ADDRESS));
  }

  @Override
  @HotPath
  public int bytes() {
    return (int) AtomicWords.loadOpaque(data.window(BYTES), data.index(BYTES));
  }

  @Override
  @HotPath
  public long bufferAddress() {
    return AtomicWords.loadOpaque(data.window(BUFFER), data.index(BUFFER));
  }

  @Override
  @HotPath
  public long bufferBytes() {
    return AtomicWords.loadOpaque(data.window(BUFFER_BYTES), data.index(BUFFER_BYTES));
  }

  @Override
  @HotPath
  public void placed(long step) {
    AtomicWords.storeRelease(data, PLACED, step + 1);
  }
}
