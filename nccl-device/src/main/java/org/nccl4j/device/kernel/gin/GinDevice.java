package org.nccl4j.device.kernel.gin;

/** Memory and copies of a device, as the proxy of kernels' puts needs them. */
public interface GinDevice {
  /** Returns the address by which the processor reaches a connection's memory. */
  long hostAddress(long address);

  /** Allocates zeroed memory that kernels and the processor both reach at any time. */
  Shared allocate(long bytes);

  /** Copies that run one after the other, beside those of other calls. */
  Copies copies();

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
