package org.nccl4j.transport.net.memory;

import java.lang.System.Logger.Level;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.host.RegisteredMemory;

/**
 * Users' buffers as memory of a network's connection. A network that registers freely ({@link
 * NetConnection#registersFreely}) takes any buffer of the host. Another one takes memory that its
 * user has registered, from its first message in it until the end of that registration. Owned by
 * the thread that gives the connection's proxy its turns.
 */
public final class UserBuffers implements AutoCloseable {
  private static final System.Logger LOG = DebugLog.of("NET");

  /** Registrations that are known at a time: an operation uses one or two. */
  private static final int MOST = 16;

  private final NetConnection network;

  /** Registers memory; null on the host device. */
  private final GpuBuffers gpu;

  /** Null where the network does not register freely. */
  private final FreeBuffers free;

  /** By place: the users' registrations. */
  private final RegisteredMemory[] registered = new RegisteredMemory[MOST];

  /** By place: what the network knows; null where it has refused the memory, too. */
  private final NetMemory[] known = new NetMemory[MOST];

  /** The place of the registration that was found last. */
  private int last;

  /** The place that makes room for the next. */
  private int next;

  /** The memory that was found last, and the offset of the bytes in it. */
  private NetMemory memory;

  private long offset;

  /**
   * Buffers of one connection.
   *
   * @param gpu gives the network memory of a GPU; null on the host device
   */
  public UserBuffers(NetConnection network, GpuBuffers gpu) {
    this.network = network;
    this.gpu = gpu;
    this.free = gpu == null && network.registersFreely() ? new FreeBuffers(network) : null;
  }

  /**
   * Finds memory that holds some bytes; {@link #memory} and {@link #offset} return it from then on.
   *
   * @param buffer that holds the bytes
   * @param address of the first byte
   * @param idle whether no message is in progress in any of the buffers
   * @return false if the network does not take the buffer
   */
  @HotPath
  public boolean find(DeviceMemory buffer, long address, int bytes, boolean idle) {
    memory =
        free == null
            ? findRegistered(buffer, address, bytes, idle)
            : free.find(address, bytes, buffer.address(), buffer.size());
    if (memory == null) {
      return false;
    }
    offset = address - memory.memory().address();
    return true;
  }

  private NetMemory findRegistered(DeviceMemory buffer, long address, int bytes, boolean idle) {
    if (holds(last, buffer, address, bytes) || look(buffer, address, bytes)) {
      return known[last];
    }
    RegisteredMemory found = RegisteredMemory.find(buffer, address, bytes);
    if (found == null || !idle && registered[next] != null) {
      return null;
    }
    put(found);
    return known[last];
  }

  private boolean look(DeviceMemory buffer, long address, int bytes) {
    for (int place = 0; place < MOST; place++) {
      if (holds(place, buffer, address, bytes)) {
        last = place;
        return true;
      }
    }
    return false;
  }

  @HotPath
  private boolean holds(int place, DeviceMemory buffer, long address, int bytes) {
    return registered[place] != null && registered[place].holds(buffer, address, bytes);
  }

  private void put(RegisteredMemory registration) {
    forget(next);
    registered[next] = registration;
    try {
      known[next] =
          gpu == null
              ? network.register(registration.memory(), registration)
              : gpu.register(network, registration);
    } catch (NcclException e) {
      registration.refuse();
      LOG.log(
          Level.WARNING,
          "data of {0} go through slots of the host''s memory, which is slower, since the network"
              + " does not take it: {1}",
          registration.memory(),
          e.getMessage());
    }
    last = next;
    next = (next + 1) % MOST;
  }

  /** Returns the memory that was found. */
  @HotPath
  public NetMemory memory() {
    return memory;
  }

  /** Returns the offset of the bytes that were found in their memory. */
  @HotPath
  public long offset() {
    return offset;
  }

  /** Has the network forget memory that is no longer registered; no message is in progress. */
  public void forgetEnded() {
    for (int place = 0; place < MOST; place++) {
      if (registered[place] != null && !registered[place].isOpen()) {
        forget(place);
      }
    }
  }

  private void forget(int place) {
    registered[place] = null;
    if (known[place] != null) {
      known[place].close();
      known[place] = null;
    }
  }

  @Override
  public void close() {
    ProxyChannel.close(known);
    if (free != null) {
      free.close();
    }
  }
}
