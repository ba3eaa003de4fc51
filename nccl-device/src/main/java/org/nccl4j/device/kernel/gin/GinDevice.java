package org.nccl4j.device.kernel.gin;

import java.util.Optional;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;

/** Memory and copies of a device, as the proxy of kernels' puts and gets needs them. */
public interface GinDevice {
  /** Returns the address by which the processor reaches a connection's memory. */
  long hostAddress(long address);

  /** Allocates zeroed memory that kernels and the processor both reach at any time. */
  Shared allocate(long bytes);

  /** Copies that run one after the other, beside those of other calls. */
  Copies copies();

  /** Returns what sends the data of a connection from windows; empty where nothing can. */
  default Optional<Exposing> exposing(Connection send) {
    return Optional.empty();
  }

  /** Returns what receives the data of a connection in windows; empty where nothing can. */
  default Optional<Placing> placing(Connection recv) {
    return Optional.empty();
  }

  /** Steps that a network sends from where their data lie. Used by one thread at a time. */
  interface Exposing {
    /** True if it is worth it for some bytes of a window, and the network may read the memory. */
    boolean takes(DeviceMemory window, long offset, long bytes);

    /**
     * Exposes bytes as the steps from one on, before the tail says that they are there.
     *
     * @return the step behind them
     */
    long add(long first, DeviceMemory window, long offset, long bytes);

    /** The communicator has failed: nothing is read any more. Any thread. */
    void end();
  }

  /** Steps that a network receives where their data belong. Used by one thread at a time. */
  interface Placing {
    /** True if it may be told of a step now, while those from one on have not been given back. */
    boolean mayTell(long step, long from);

    /** Tells where the data of a step go; of each step of data alone, in order. */
    void tell(long step, DeviceMemory window, long offset, int bytes);

    /** True if the data of a step that has come are where they belong; then it is forgotten. */
    boolean take(long step);
  }

  /** Memory that kernels and the processor both reach. */
  interface Shared extends AutoCloseable {
    /** Returns its address for the processor. */
    long host();

    /** Returns its address for kernels. */
    long address();

    @Override
    void close();
  }

  /** A queue of copies. Used by one thread at a time. */
  interface Copies extends AutoCloseable {
    /** Begins a copy between addresses as kernels use them. */
    void begin(long to, long from, long bytes);

    /** Returns the number of copies begun so far. */
    long begun();

    /** Returns the number of copies that are done, in order; never waits. */
    long done();

    /** Returns when no copy is running; none is begun any more. */
    @Override
    void close();
  }
}
