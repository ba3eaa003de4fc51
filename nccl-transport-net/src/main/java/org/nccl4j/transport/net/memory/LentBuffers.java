package org.nccl4j.transport.net.memory;

import java.lang.System.Logger.Level;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.host.RegisteredMemory;
import org.nccl4j.device.kernel.Connection.LentSteps;

/**
 * The buffers that kernels of the host device lend a proxy, which sends from them, as memory of the
 * network's connection. A network that registers freely ({@link NetConnection#registersFreely})
 * takes any buffer. Another one takes memory that its user has registered, from the first step that
 * is sent from it until the end of that registration. Owned by the thread that gives the proxy its
 * turns.
 */
public final class LentBuffers implements AutoCloseable {
  private static final System.Logger LOG = DebugLog.of("NET");

  /** Registrations that are known at a time: an operation uses one or two. */
  private static final int MOST = 16;

  private final LentSteps steps;
  private final NetConnection network;

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

  /** The memory that was found last, and the offset of a step's data in it. */
  private NetMemory memory;

  private long offset;

  /** The last step whose data were copied into its slot, or -1. */
  private long copied = -1;

  /** Buffers of one connection. */
  public LentBuffers(LentSteps steps, NetConnection network) {
    this.steps = steps;
    this.network = network;
    this.free = network.registersFreely() ? new FreeBuffers(network) : null;
  }

  /** Returns the steps. */
  @HotPath
  public LentSteps steps() {
    return steps;
  }

  /**
   * Finds the data of a lent step; {@link #memory} and {@link #offset} return them from then on.
   * Copies them into the step's slot where the network does not take the buffer.
   *
   * @param idle whether no message is in progress
   * @return false if the data are in the slot
   */
  @HotPath
  public boolean find(long step, int bytes, boolean idle) {
    if (copied == step) {
      return false;
    }
    DeviceMemory buffer = steps.memory(step);
    long address = buffer.address() + steps.offset(step);
    memory =
        free == null
            ? findRegistered(buffer, address, bytes, idle)
            : free.find(address, bytes, buffer.address(), buffer.size());
    if (memory == null) {
      steps.fill(step, bytes);
      copied = step;
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
      known[next] = network.register(registration.memory());
    } catch (NcclException e) {
      LOG.log(
          Level.WARNING,
          "{0} is copied before it is sent, since the network does not take it: {1}",
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

  /** Returns the offset of the data that were found in their memory, in bytes. */
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
