package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.function.BooleanSupplier;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;

/** A connection within the process, for tests. */
final class IbLink implements AutoCloseable {
  /** For a machine that stands still for more than a minute. */
  static final long DEADLINE_NANOS = 300_000_000_000L;

  final Net from;
  final Net to;
  NetSender sender;
  NetReceiver receiver;

  /** Connects device 0 of one rank to device 0 of another, with settings NAME, VALUE, ... */
  IbLink(String... settings) {
    from = new IbProvider().open(FakeVerbs.context(0, settings));
    to = new IbProvider().open(FakeVerbs.context(1, settings));
    connect(0, 0);
  }

  /** Connects device 0 of one rank to device 0 of another, as they are told. */
  IbLink(NetContext fromContext, NetContext toContext) {
    from = new IbProvider().open(fromContext);
    to = new IbProvider().open(toContext);
    connect(0, 0);
  }

  /** Connects devices that two ranks choose by settings of their own. */
  IbLink(String[] fromSettings, String[] toSettings) {
    from = new IbProvider().open(FakeVerbs.context(0, fromSettings));
    to = new IbProvider().open(FakeVerbs.context(1, toSettings));
    connect(0, 0);
  }

  /** Moves bytes and says whether they arrived whole. */
  boolean moves(int bytes) {
    try (DeviceMemory source = pattern(bytes, 5);
        DeviceMemory target = memory(bytes);
        NetMemory out = sender.register(source);
        NetMemory in = receiver.register(target)) {
      NetRequest receive = receive(in, 0, bytes, 3);
      NetRequest send = send(out, 0, bytes, 3);
      boolean[] ended = new boolean[2];
      await(
          () -> {
            ended[0] = ended[0] || receive.test(null);
            ended[1] = ended[1] || send.test(null);
            return ended[0] && ended[1];
          });
      return Arrays.equals(patternBytes(bytes, 5), read(target, 0, bytes));
    }
  }

  private void connect(int fromDevice, int toDevice) {
    boolean connected = false;
    try (NetListener listener = to.listen(toDevice)) {
      sender = from.connect(fromDevice, listener.handle());
      await(
          () -> {
            boolean ready = sender.isConnected();
            receiver = receiver == null ? listener.accept() : receiver;
            return ready && receiver != null;
          });
      connected = true;
    } finally {
      if (!connected) {
        close();
      }
    }
  }

  /** Polls until it is so. */
  static void await(BooleanSupplier done) {
    long end = System.nanoTime() + DEADLINE_NANOS;
    while (!done.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, "waited too long");
      Thread.onSpinWait();
    }
  }

  NetRequest send(NetMemory memory, long offset, int bytes, int tag) {
    return send(memory, offset, bytes, tag, 0);
  }

  NetRequest send(NetMemory memory, long offset, int bytes, int tag, int note) {
    NetRequest[] request = new NetRequest[1];
    await(
        () -> {
          request[0] = sender.isend(memory, offset, bytes, tag, note);
          return request[0] != null;
        });
    return request[0];
  }

  /** Begins to receive as soon as that can be. */
  NetRequest receive(NetMemory memory, long offset, int bytes, int tag) {
    return receive(
        1, new NetMemory[] {memory}, new long[] {offset}, new int[] {bytes}, new int[] {tag});
  }

  /** Begins to receive, as soon as that can be, a message that is moved to other memory. */
  NetRequest receiveMoved(
      NetMemory memory, long offset, int bytes, int tag, NetMemory other, long at, int exact) {
    NetMemory[] memories = {memory};
    NetRequest[] request = new NetRequest[1];
    await(
        () -> {
          assertTrue(receiver.redirectNext(other, at, exact));
          request[0] =
              receiver.irecv(1, memories, new long[] {offset}, new int[] {bytes}, new int[] {tag});
          return request[0] != null;
        });
    return request[0];
  }

  /** Begins to receive a group as soon as that can be. */
  NetRequest receive(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
    NetRequest[] request = new NetRequest[1];
    await(
        () -> {
          request[0] = receiver.irecv(n, memories, offsets, bytes, tags);
          return request[0] != null;
        });
    return request[0];
  }

  static DeviceMemory memory(int bytes) {
    return HostDevice.instance().allocate(bytes);
  }

  /** Bytes that tell where they are. */
  static DeviceMemory pattern(int bytes, int seed) {
    DeviceMemory memory = memory(bytes);
    memory.write(0, ByteBuffer.wrap(patternBytes(bytes, seed)));
    return memory;
  }

  static byte[] patternBytes(int bytes, int seed) {
    byte[] pattern = new byte[bytes];
    for (int i = 0; i < bytes; i++) {
      pattern[i] = (byte) (i * 31 + (i >> 8) * 7 + seed);
    }
    return pattern;
  }

  static byte[] read(DeviceMemory memory, long offset, int bytes) {
    byte[] read = new byte[bytes];
    memory.read(offset, ByteBuffer.wrap(read));
    return read;
  }

  @Override
  public void close() {
    from.close();
    to.close();
  }
}
