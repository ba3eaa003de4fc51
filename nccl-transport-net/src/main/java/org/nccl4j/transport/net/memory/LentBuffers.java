package org.nccl4j.transport.net.memory;

import java.lang.System.Logger.Level;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.host.HostDevice;
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

  /** Buffers that are known at a time: an operation lends one or two. */
  private static final int MOST = 16;

  private final LentSteps steps;
  private final NetConnection network;
  private final boolean free;

  /** What the network knows; null where it has refused the memory, too. */
  private final NetMemory[] known = new NetMemory[MOST];

  /** By place: the users' registrations, where the network takes only these. */
  private final RegisteredMemory[] registered = new RegisteredMemory[MOST];

  /** The place of the buffer that was found last. */
  private int last;

  /** The place that makes room for the next. */
  private int next;

  /** The last step whose data were copied into its slot, or -1. */
  private long copied = -1;

  /** Buffers of one connection. */
  public LentBuffers(LentSteps steps, NetConnection network) {
    this.steps = steps;
    this.network = network;
    this.free = network.registersFreely();
  }

  /** Returns the steps. */
  @HotPath
  public LentSteps steps() {
    return steps;
  }

  /**
   * Finds the buffer of a lent step; {@link #memory} and {@link #offset} return it from then on.
   * Copies the data into the step's slot where the network does not take the buffer.
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
    if (!holds(last, buffer, address, bytes) && !look(buffer, address, bytes)) {
      add(buffer, address, bytes, idle);
    }
    if (known[last] != null && holds(last, buffer, address, bytes)) {
      return true;
    }
    steps.fill(step, bytes);
    copied = step;
    return false;
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
    if (!free) {
      return registered[place] != null && registered[place].holds(buffer, address, bytes);
    }
    if (known[place] == null) {
      return false;
    }
    DeviceMemory memory = known[place].memory();
    return address >= memory.address() && address + bytes <= memory.address() + memory.size();
  }

  private void add(DeviceMemory buffer, long address, int bytes, boolean idle) {
    if (free) {
      // By its addresses alone, so that it can be freed meanwhile.
      put(null, network.register(HostDevice.instance().wrap(buffer.address(), buffer.size())));
      return;
    }
    RegisteredMemory found = RegisteredMemory.find(buffer, address, bytes);
    if (found != null && (idle || registered[next] == null)) {
      put(found, register(found));
    }
  }

  private NetMemory register(RegisteredMemory found) {
    try {
      return network.register(found.memory());
    } catch (NcclException e) {
      LOG.log(
          Level.WARNING,
          "{0} is copied before it is sent, since the network does not take it: {1}",
          found.memory(),
          e.getMessage());
      return null;
    }
  }

  private void put(RegisteredMemory registration, NetMemory memory) {
    if (known[next] != null) {
      known[next].close();
    }
    registered[next] = registration;
    known[next] = memory;
    last = next;
    next = (next + 1) % MOST;
  }

  /** Returns the memory that was found. */
  @HotPath
  public NetMemory memory() {
    return known[last];
  }

  /** Returns the offset of a step's data in the memory that was found for it. */
  @HotPath
  public long offset(long step) {
    return steps.memory(step).address() + steps.offset(step) - known[last].memory().address();
  }

  /** Has the network forget memory that is no longer registered; no message is in progress. */
  public void forgetEnded() {
    for (int place = 0; place < MOST; place++) {
      if (registered[place] != null && !registered[place].isOpen()) {
        registered[place] = null;
        if (known[place] != null) {
          known[place].close();
          known[place] = null;
        }
      }
    }
  }

  @Override
  public void close() {
    ProxyChannel.close(known);
  }
}
