package org.nccl4j.transport.net.socket;

/**
 * The number of sockets and threads of a connection besides its first socket: the setting, else
 * NCCL's numbers for the clouds that limit the bandwidth of a single stream, else none.
 *
 * @param threads that serve lanes
 * @param lanes sockets that they serve, all together
 */
record DataSocketCount(int threads, int lanes) {
  private static final int AWS = 0x1d0f;
  private static final int GCP = 0x1ae0;

  static DataSocketCount of(SocketSettings settings, Nic nic) {
    int vendor = nic.vendor();
    int threads = settings.threads().orElse(vendor == AWS ? 2 : vendor == GCP ? 4 : 0);
    int each = settings.socksPerThread().orElse(vendor == AWS ? 8 : 1);
    return new DataSocketCount(each == 0 ? 0 : threads, threads * each);
  }

  /** Returns a copy with the number of lanes that the other end has decided on. */
  DataSocketCount withLanes(int number) {
    return new DataSocketCount(number == 0 ? 0 : Math.max(1, Math.min(threads, number)), number);
  }
}
