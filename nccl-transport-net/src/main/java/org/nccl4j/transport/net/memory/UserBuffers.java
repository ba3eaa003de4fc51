package org.nccl4j.transport.net.memory;

import java.lang.System.Logger.Level;
import java.util.Arrays;
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
 *
 * <p>Registering pins all of a user's memory, so a registration that is in use is never ended for
 * another one: the data of registrations for which there is no room go through slots. The one that
 * was used least recently makes room only after it has rested for long.
 */
public final class UserBuffers implements AutoCloseable {
  private static final System.Logger LOG = DebugLog.of("NET");

  /** Registrations that are known at a time. */
  public static final int MOST = 64;

  /** Room at first: an operation uses one or two. */
  private static final int FEW = 8;

  /** Searches for another registration after which one that was not found makes room. */
  public static final long REST = 16L * MOST;

  private final NetConnection network;

  /** Registers memory; null on the host device. */
  private final GpuBuffers gpu;

  /** Null where the network does not register freely. */
  private final FreeBuffers free;

  /** By place: the users' registrations. */
  private RegisteredMemory[] registered = new RegisteredMemory[FEW];

  /** By place: what the network knows; null where it has refused the memory, too. */
  private NetMemory[] known = new NetMemory[FEW];

  /** By place: {@link #searches} when it was last found. */
  private long[] found = new long[FEW];

  /** Places that have been taken so far. */
  private int places;

  /** The place of the registration that was found last. */
  private int last;

  /** Searches for another registration than the one before. */
  private long searches;

  /** The last registration for which there was no room; null if there was none. */
  private RegisteredMemory left;

  /** True if the log says that there is no room. */
  private boolean told;

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
      found[last] = searches;
      return known[last];
    }
    boolean again = left != null && left.holds(buffer, address, bytes);
    RegisteredMemory wanted = again ? left : RegisteredMemory.find(buffer, address, bytes);
    if (wanted == null) {
      return null;
    }
    searches += again ? 0 : 1;
    int place = place(idle);
    if (place < 0) {
      left = wanted;
      return null;
    }
    left = null;
    put(place, wanted);
    return known[last];
  }

  /** Begins behind the last one: buffers that are used in turn were found in that order before. */
  private boolean look(DeviceMemory buffer, long address, int bytes) {
    for (int further = 1; further < places; further++) {
      int place = last + further < places ? last + further : last + further - places;
      if (holds(place, buffer, address, bytes)) {
        last = place;
        searches++;
        return true;
      }
    }
    return false;
  }

  /** A place that is free, or whose registration has rested; -1 if there is none. */
  private int place(boolean idle) {
    int oldest = 0;
    for (int place = 0; place < places; place++) {
      if (registered[place] == null) {
        return place;
      }
      oldest = found[place] < found[oldest] ? place : oldest;
    }
    if (places < MOST) {
      if (places == registered.length) {
        registered = Arrays.copyOf(registered, 2 * places);
        known = Arrays.copyOf(known, 2 * places);
        found = Arrays.copyOf(found, 2 * places);
      }
      return places++;
    }
    if (idle && searches - found[oldest] > REST) {
      return oldest;
    }
    if (!told) {
      told = true;
      LOG.log(
          Level.INFO,
          "more than {0} registered buffers are used over a connection: data of some go through"
              + " slots, which is slower; register fewer and larger buffers",
          MOST);
    }
    return -1;
  }

  @HotPath
  private boolean holds(int place, DeviceMemory buffer, long address, int bytes) {
    return registered[place] != null && registered[place].holds(buffer, address, bytes);
  }

  private void put(int place, RegisteredMemory registration) {
    forget(place);
    registered[place] = registration;
    found[place] = searches;
    last = place;
    try {
      known[place] =
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
    left = null;
    for (int place = 0; place < places; place++) {
      if (registered[place] != null && !registered[place].isOpen()) {
        forget(place);
      }
    }
  }

  private void forget(int place) {
    registered[place] = null;
    if (known[place] != null) {
      known[place].closeSoon();
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
