package org.nccl4j.transport.net.socket;

/**
 * The number of sockets and threads of a connection besides its first socket: the setting, else
 * NCCL's numbers for the clouds that limit the bandwidth of a single stream. Else one socket where
 * one thread moves the messages of many connections over an interface faster than it; threads of
 * the communicator serve these.
 *
 * @param threads of the connection itself, which serve lanes
 * @param lanes sockets that they serve, all together
 * @param shared true if the communicator's threads serve the lanes
 */
record DataSocketCount(int threads, int lanes, boolean shared) {
  private static final int AWS = 0x1d0f;
  private static final int GCP = 0x1ae0;

  /**
   * Speed of an interface in Mbit/s that one thread can use. On a Xeon it moves 2.0 to 2.4 GB/s
   * each way, copies to and from the kernel included.
   */
  private static final int ONE_THREAD = 10_000;

  /**
   * Chooses.
   *
   * @param helped whether further threads would help
   */
  static DataSocketCount of(SocketSettings settings, Nic nic, boolean helped) {
    int vendor = nic.vendor();
    boolean limited = vendor == AWS || vendor == GCP;
    boolean set = settings.threads().isPresent() || settings.socksPerThread().isPresent();
    if (helped && !limited && !set && nic.mayExceed(ONE_THREAD)) {
      return new DataSocketCount(0, 1, true);
    }
    int threads = settings.threads().orElse(vendor == AWS ? 2 : vendor == GCP ? 4 : 0);
    int each = settings.socksPerThread().orElse(vendor == AWS ? 8 : 1);
    return new DataSocketCount(each == 0 ? 0 : threads, threads * each, false);
  }

  /** Returns a copy with the number of lanes that the other end has decided on. */
  DataSocketCount withLanes(int number) {
    int own = number == 0 || shared ? 0 : Math.max(1, Math.min(threads, number));
    return new DataSocketCount(own, number, shared);
  }
}
