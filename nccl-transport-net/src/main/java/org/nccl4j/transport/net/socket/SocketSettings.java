package org.nccl4j.transport.net.socket;

import java.util.Optional;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.wire.InterfaceFilter;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.transport.net.socket.link.DataSocketCount;

/**
 * The user's options for sockets.
 *
 * @param interfaces which interfaces
 * @param ports which ports may be listened on
 * @param threads helper threads a connection; empty for a choice by the interface
 * @param socksPerThread sockets that each of them serves; empty likewise
 */
record SocketSettings(
    InterfaceFilter interfaces,
    PortRange ports,
    Optional<Integer> threads,
    Optional<Integer> socksPerThread) {
  static final int MAX_SOCKETS = 64;

  private static final int AWS = 0x1d0f;
  private static final int GCP = 0x1ae0;

  /**
   * Speed of an interface in Mbit/s that one thread can use. On a Xeon it moves 2.0 to 2.4 GB/s
   * each way, copies to and from the kernel included.
   */
  private static final int ONE_THREAD = 10_000;

  static SocketSettings of(NetContext context) {
    Optional<Integer> threads = context.find(Settings.NCCL_SOCKET_NTHREADS);
    Optional<Integer> socks = context.find(Settings.NCCL_NSOCKS_PERTHREAD);
    if (threads.orElse(1) * socks.orElse(1) > MAX_SOCKETS) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "NCCL_SOCKET_NTHREADS=%d and NCCL_NSOCKS_PERTHREAD=%d make more than %d sockets"
              .formatted(threads.orElse(1), socks.orElse(1), MAX_SOCKETS),
          "set them so that their product is at most " + MAX_SOCKETS);
    }
    return new SocketSettings(
        new InterfaceFilter(
            context.get(Settings.NCCL_SOCKET_IFNAME), context.get(Settings.NCCL_SOCKET_FAMILY)),
        context.get(Settings.NCCL4J_BOOTSTRAP_PORTS),
        threads,
        socks);
  }

  /**
   * The number of a connection's sockets: the setting, else NCCL's numbers for the clouds that
   * limit the bandwidth of a single stream, lowered where these and a setting make too many. Else
   * some further sockets, served by threads of the communicator, where one thread would move the
   * messages of many connections over an interface faster than it.
   *
   * @param shared sockets that threads of the communicator may serve; 0 if these would not help
   */
  DataSocketCount dataSockets(Nic nic, int shared) {
    int vendor = nic.vendor();
    boolean limited = vendor == AWS || vendor == GCP;
    boolean set = threads.isPresent() || socksPerThread.isPresent();
    if (shared > 0 && !limited && !set && nic.mayExceed(ONE_THREAD)) {
      return new DataSocketCount(0, shared, true);
    }
    int most = MAX_SOCKETS / Math.max(1, socksPerThread.orElse(1));
    int number = threads.orElse(Math.min(most, vendor == AWS ? 2 : vendor == GCP ? 4 : 0));
    int mostEach = MAX_SOCKETS / Math.max(1, number);
    int each = socksPerThread.orElse(Math.min(mostEach, vendor == AWS ? 8 : 1));
    return new DataSocketCount(each == 0 ? 0 : number, number * each, false);
  }
}
