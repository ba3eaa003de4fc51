package org.nccl4j.transport.net.proxy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.transport.net.NetEnd;
import org.nccl4j.transport.net.memory.CallNotes;
import org.nccl4j.transport.net.memory.HostEndMemory;
import org.nccl4j.transport.net.memory.ProxyChannel;

/** Steps in LL and in Simple of a channel; the test plays the network and the kernels. */
class ProxyLinesTest {
  private static final EndpointNames RANKS = new EndpointNames(0, 1);
  private static final ConnectionLayout LAYOUT =
      new ConnectionLayout(64 * 512, 64 * 128, 64 * 1024);
  private static final int SIGNATURE = 0x1234;

  private final HostEndMemory memory =
      HostEndMemory.shared(LAYOUT, /* channels= */ 1, /* gpu= */ true, /* lines= */ true);
  private final ByteBuffer data = view(memory.connection().data());
  private final ByteBuffer credit = view(memory.connection().credit());
  private final Network network = new Network();
  private final ProxyChannel channel = memory.channel(0, network);
  private final List<Message> messages = new ArrayList<>();

  private static ByteBuffer view(DeviceMemory memory) {
    return HostDevice.view(memory, 0, (int) memory.size());
  }

  @AfterEach
  void free() {
    memory.close();
  }

  /** A message of either direction, which ends when the test says so. */
  private static final class Message implements NetRequest {
    private final int note;
    private int bytes;
    private int noteCome;
    private boolean ended;

    Message(int bytes, int note) {
      this.bytes = bytes;
      this.note = note;
    }

    /** It has come, with so many bytes and a note. */
    void come(int size, int itsNote) {
      bytes = size;
      noteCome = itsNote;
      ended = true;
    }

    @Override
    public boolean test(int[] sizes) {
      if (ended && sizes != null) {
        sizes[0] = bytes;
      }
      return ended;
    }

    @Override
    public int note() {
      return noteCome;
    }
  }

  private record Known(DeviceMemory memory) implements NetMemory {
    @Override
    public void close() {}
  }

  private final class Network implements NetSender, NetReceiver {
    @Override
    public NetRequest irecv(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
      messages.add(new Message(bytes[0], 0));
      return messages.get(messages.size() - 1);
    }

    @Override
    public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
      throw new AssertionError("the slots are in the host's memory");
    }

    @Override
    public boolean isConnected() {
      return true;
    }

    @Override
    public NetRequest isend(NetMemory from, long offset, int bytes, int tag) {
      return isend(from, offset, bytes, tag, 0);
    }

    @Override
    public NetRequest isend(NetMemory from, long offset, int bytes, int tag, int note) {
      messages.add(new Message(bytes, note));
      return messages.get(messages.size() - 1);
    }

    @Override
    public NetMemory register(DeviceMemory registered) {
      return new Known(registered);
    }

    @Override
    public NetMemory registerDmaBuf(DeviceMemory registered, int fd, long offset) {
      throw new AssertionError("it is the host's");
    }

    @Override
    public void close() {}
  }

  private StepEvents events(boolean sends) {
    return new StepEvents(RANKS, NetEnd.OPERATIONS, sends, channel, Optional.empty());
  }

  private void announce(long step, int bytes) {
    data.putInt(
        (int) ConnectionLayout.size(step),
        ConnectionLayout.LINES | bytes << ConnectionLayout.LINES_SIZE | SIGNATURE);
  }

  private void storeLine(long step, int line) {
    int at = (int) LAYOUT.ll(step) + 16 * line;
    data.putInt(at, line).putInt(at + 4, (int) step + 1);
    data.putInt(at + 8, -line).putInt(at + 12, (int) step + 1 + (SIGNATURE << 16));
  }

  private void fillSimple(long step, int bytes) {
    data.putInt((int) ConnectionLayout.size(step), bytes);
    data.putLong((int) ConnectionLayout.TAIL, step + 1);
  }

  /** The tail of a later step does not make a step in LL one in Simple. */
  @Test
  void stepsAreSentInOrderWhateverTheirProtocol() {
    SendProxy proxy = new SendProxy(network, channel, RANKS, events(true));
    assertEquals(0, proxy.doWork());
    announce(0, 16);
    storeLine(0, 1);
    fillSimple(1, 100);
    assertTrue(proxy.isUnderWay());
    assertEquals(0, proxy.doWork(), "a line has not come");
    storeLine(0, 0);
    assertEquals(2, proxy.doWork());
    assertEquals(24, messages.get(0).bytes);
    assertEquals(CallNotes.LINES, messages.get(0).note);
    assertEquals(100, messages.get(1).bytes);
    assertFalse(messages.get(1).note == CallNotes.LINES || messages.get(1).note == 0);
    messages.get(0).ended = true;
    assertEquals(1, proxy.doWork());
    assertEquals(1, channel.head());
    assertEquals(0, data.getInt((int) ConnectionLayout.size(0)), "the kernel's word is taken back");
    messages.get(1).ended = true;
    proxy.doWork();
    assertFalse(proxy.isUnderWay());
  }

  /** All slots are in flight; the next step's slot still has the word of the first. */
  @Test
  void aStepIsNotSentTwice() {
    SendProxy proxy = new SendProxy(network, channel, RANKS, events(true));
    for (long step = 0; step < ConnectionLayout.STEPS; step++) {
      announce(step, 0);
    }
    assertEquals(ConnectionLayout.STEPS, proxy.doWork());
    assertEquals(0, proxy.doWork());
    assertEquals(ConnectionLayout.STEPS, messages.size());
    assertTrue(proxy.isUnderWay());
  }

  @Test
  void linesAreThereBeforeTheTail() {
    RecvProxy proxy = new RecvProxy(network, channel, RANKS, /* polled= */ true, events(false));
    assertEquals(ConnectionLayout.STEPS, proxy.doWork());
    int message = (int) LAYOUT.simple(0);
    data.putLong(message, SIGNATURE).putLong(message + 8, 0x1122334455667788L);
    messages.get(0).come(16, CallNotes.LINES);
    assertEquals(1, proxy.doWork());
    int line = (int) LAYOUT.ll(0);
    assertEquals(0x55667788, data.getInt(line));
    assertEquals(1, data.getInt(line + 4));
    assertEquals(0x11223344, data.getInt(line + 8));
    assertEquals(1 + (SIGNATURE << 16), data.getInt(line + 12));
    assertEquals(1, channel.tail());
    assertEquals(0, data.getLong(line + 16), "no other line");
  }

  /** A kernel passes steps without lines at once, before their messages have come. */
  @Test
  void aKernelThatIsAheadOverwritesNoReceive() {
    RecvProxy proxy = new RecvProxy(network, channel, RANKS, /* polled= */ true, events(false));
    proxy.doWork();
    credit.putLong((int) ConnectionLayout.HEAD, 3);
    assertEquals(0, proxy.doWork());
    assertEquals(ConnectionLayout.STEPS, messages.size());
    messages.get(0).come(8, CallNotes.LINES);
    proxy.doWork();
    proxy.doWork();
    assertEquals(ConnectionLayout.STEPS + 1, messages.size());
    messages.get(1).come(8, 0);
    messages.get(2).come(8, 0);
    messages.get(3).come(50, 1);
    proxy.doWork();
    proxy.doWork();
    assertEquals(4, channel.tail());
    assertEquals(ConnectionLayout.STEPS + 3, messages.size());
  }
}
