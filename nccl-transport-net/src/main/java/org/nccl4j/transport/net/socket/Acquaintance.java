package org.nccl4j.transport.net.socket;

import java.io.Closeable;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;

/** A socket whose greeting is under way. Never waits; owned by who polls it. */
final class Acquaintance implements Closeable {
  private final SocketChannel channel;
  private final Greeting greeting;
  private ByteBuffer in;
  private int steps;
  private ByteBuffer out;

  Acquaintance(SocketChannel channel, Greeting greeting) throws IOException {
    this.channel = channel;
    this.greeting = greeting;
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
    in = ByteBuffer.allocate(greeting.wanted());
    out = ByteBuffer.wrap(greeting.opening());
  }

  SocketChannel channel() {
    return channel;
  }

  Greeting greeting() {
    return greeting;
  }

  /** How many messages of the other side it has taken. */
  int steps() {
    return steps;
  }

  /** Takes the next step, and says whether both sides know each other. */
  boolean poll() throws IOException {
    while (true) {
      channel.write(out);
      if (out.hasRemaining()) {
        return false;
      }
      if (greeting.done()) {
        return true;
      }
      int got = channel.read(in);
      if (got < 0) {
        throw new ClosedChannelException();
      }
      if (in.hasRemaining()) {
        return false;
      }
      out = ByteBuffer.wrap(greeting.step(in.array()));
      steps++;
      in = ByteBuffer.allocate(greeting.wanted());
    }
  }

  @Override
  public void close() {
    Closing.close(channel);
  }
}
