package org.nccl4j.testkit;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Random;
import java.util.function.BooleanSupplier;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;

/** Two ranks' networks with one connection from the first to the second, each with memory. */
final class NetPair implements AutoCloseable {
  static final int BYTES = 8 << 20;

  private static final long PATIENCE_NANOS = 60_000_000_000L;

  final Net from;
  final Net to;
  final NetSender sender;
  final NetReceiver receiver;
  final NetMemory source;
  final NetMemory target;
  private final DeviceMemory out = Devices.host().allocate(BYTES);
  private final DeviceMemory in = Devices.host().allocate(BYTES);

  NetPair(NetContract contract) {
    from = contract.provider().open(context(0, 1, contract.settings()));
    to = contract.provider().open(context(1, 1, contract.settings()));
    NetListener listener = to.listen(0);
    sender = from.connect(0, listener.handle());
    NetReceiver[] accepted = new NetReceiver[1];
    until(
        "a connection",
        () -> {
          boolean connected = sender.isConnected();
          if (accepted[0] == null) {
            accepted[0] = listener.accept();
          }
          return connected && accepted[0] != null;
        });
    receiver = accepted[0];
    listener.close();
    source = sender.register(out);
    target = receiver.register(in);
    byte[] bytes = new byte[BYTES];
    new Random(1).nextBytes(bytes);
    out.write(0, ByteBuffer.wrap(bytes));
  }

  /**
   * Returns a network's context.
   *
   * @param secret which
   */
  static NetContext context(int itsRank, int secret, Map<String, String> settings) {
    return new RankContext(itsRank, ByteBuffer.allocate(16).putInt(secret).array(), settings::get);
  }

  /** Looks until something is so, for as long as a check may take. */
  static void until(String what, BooleanSupplier so) {
    long start = System.nanoTime();
    while (!so.getAsBoolean()) {
      Expect.that(System.nanoTime() - start < PATIENCE_NANOS, "waited too long for %s", what);
      Thread.yield();
    }
  }

  NetRequest send(long offset, int bytes, int tag) {
    NetRequest[] made = new NetRequest[1];
    until(
        "a send to begin",
        () -> {
          made[0] = sender.isend(source, offset, bytes, tag);
          return made[0] != null;
        });
    return made[0];
  }

  NetRequest receive(long offset, int most, int tag) {
    NetMemory[] memories = {target};
    long[] offsets = {offset};
    int[] sizes = {most};
    int[] tags = {tag};
    NetRequest[] made = new NetRequest[1];
    until(
        "a receive to begin",
        () -> {
          made[0] = receiver.irecv(1, memories, offsets, sizes, tags);
          return made[0] != null;
        });
    return made[0];
  }

  /** Lets both go on until both have ended; returns the receive's size. */
  static int end(NetRequest send, NetRequest receive) {
    int[] size = {-1};
    boolean[] ended = new boolean[2];
    until(
        "a message",
        () -> {
          ended[0] = ended[0] || send.test(null);
          ended[1] = ended[1] || receive.test(size);
          return ended[0] && ended[1];
        });
    return size[0];
  }

  /** The bytes of a memory. */
  static byte[] bytes(NetMemory memory, long offset, int bytes) {
    ByteBuffer copy = ByteBuffer.allocate(bytes);
    memory.memory().read(offset, copy);
    return copy.array();
  }

  @Override
  public void close() {
    source.close();
    target.close();
    from.close();
    to.close();
    out.close();
    in.close();
  }
}
