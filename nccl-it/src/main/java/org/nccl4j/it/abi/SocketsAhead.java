package org.nccl4j.it.abi;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.time.Duration;
import java.util.Collections;
import java.util.Objects;

/**
 * Initializes the JDK's classes of sockets and of times on the thread that has started the JVM,
 * while the program's thread reads the settings: the bootstrap needs them next. The C side calls it
 * (jvm.c).
 */
final class SocketsAhead {
  private SocketsAhead() {}

  /** Throws nothing: who needs the classes gets the error again. */
  static void initialize() {
    InetSocketAddress anyPort = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
    try (ServerSocketChannel channel = ServerSocketChannel.open();
        Selector selector = Selector.open()) {
      channel.bind(anyPort);
      Objects.requireNonNull(channel.socket());
      Objects.requireNonNull(selector.provider());
      for (NetworkInterface each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
        Objects.requireNonNull(Collections.list(each.getInetAddresses()));
      }
      Objects.requireNonNull(Duration.ZERO);
    } catch (IOException | RuntimeException | LinkageError e) {
      // Such as a process without descriptors or interfaces.
      return;
    }
  }
}
