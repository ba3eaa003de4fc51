package org.nccl4j.transport.net.proxy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.transport.net.NetEnd;
import org.nccl4j.transport.net.memory.CallNotes;
import org.nccl4j.transport.net.memory.ExposedBuffers;
import org.nccl4j.transport.net.memory.HostEndMemory;
import org.nccl4j.transport.net.memory.LineMark;
import org.nccl4j.transport.net.memory.ProxyChannel;

/** Steps in LL and in Simple of a channel; the test plays the network and the kernels. */
class ProxyLinesTest {
  private static final EndpointNames RANKS = new EndpointNames(0, 1);
  private static final ConnectionLayout LAYOUT =
      new ConnectionLayout(64 * 512, 64 * 128, 64 * 1024);
  private static final int SIGNATURE = 0x1234;

  private final HostEndMemory memory =
      HostEndMemory.shared(LAYOUT, /* channels= */ 1, /* gpu= */ true, LineMark.NOTE);
  private final ByteBuffer data = view(memory.connection().data());
  private final ByteBuffer credit = view(memory.connection().credit());
  private final Network network = new Network();
  private final ProxyChannel channel = memory.channel(0, network);

  /** The same of a network without notes. */
  private final HostEndMemory sized =
      HostEndMemory.shared(LAYOUT, /* channels= */ 1, /* gpu= */ true, LineMark.SIZE);

  private final ByteBuffer sizedData = view(sized.connection().data());
  private final ProxyChannel sizedChannel = sized.channel(0, network);
  private final List<Message> messages = new ArrayList<>();

  private static ByteBuffer view(DeviceMemory memory) {
    return HostDevice.view(memory, 0, (int) memory.size());
  }

  @AfterEach
  void free() {
    memory.close();
    sized.close();
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
    public boolean registersFreely() {
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
    return new StepEvents(
        RANKS,
        NetEnd.OPERATIONS,
        sends,
        channel,
        Optional.empty(),
        TransportContext.StepTimes.NONE);
  }

  private void announce(long step, int bytes) {
    announce(data, step, bytes);
  }

  private static void announce(ByteBuffer data, long step, int bytes) {
    data.putInt(
        (int) ConnectionLayout.size(step),
        ConnectionLayout.LINES | bytes << ConnectionLayout.LINES_SIZE | SIGNATURE);
  }

  private void storeLine(long step, int line) {
    storeLine(data, step, line);
  }

  private static void storeLine(ByteBuffer data, long step, int line) {
    int at = (int) LAYOUT.ll(step) + 16 * line;
    data.putInt(at, line).putInt(at + 4, (int) step + 1);
    data.putInt(at + 8, -line).putInt(at + 12, (int) step + 1 + (SIGNATURE << 16));
  }

  private void fillSimple(long step, int bytes) {
    fillSimple(data, step, bytes);
  }

  private static void fillSimple(ByteBuffer data, long step, int bytes) {
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

  /** Most packed lines are 8 + 512 / 2 bytes here, and most bytes of a step in Simple 1,024. */
  @ParameterizedTest
  @CsvSource({
    "1, 1",
    "8, 8",
    "9, 10",
    "16, 16",
    "17, 18",
    "257, 258",
    "265, 266",
    "273, 273",
    "1023, 1023"
  })
  void stepsInSimpleHaveNoSizeOfLines(int bytes, int sent) {
    SendProxy proxy = new SendProxy(network, sizedChannel, RANKS, events(true));
    fillSimple(sizedData, 0, bytes);
    assertEquals(1, proxy.doWork());
    assertEquals(sent, messages.get(0).bytes);
    RecvProxy receiving =
        new RecvProxy(network, sizedChannel, RANKS, /* polled= */ true, events(false));
    assertEquals(ConnectionLayout.STEPS, receiving.doWork());
    int line = (int) LAYOUT.ll(0);
    sizedData.putLong((int) ConnectionLayout.TAIL, 0);
    messages.get(1).come(sent, 0);
    receiving.doWork();
    assertEquals(0, sizedData.getLong(line), "no lines");
    assertEquals(1, sizedChannel.tail());
  }

  /**
   * The slots of a sender with GPUDirect carry no LL, but the receiver's in the host's memory do.
   */
  @ParameterizedTest
  @CsvSource({"9, 10", "16, 16", "265, 266", "273, 273"})
  void sendersWithoutLinesPadForReceiversWithThem(int bytes, int sent) {
    NetMemory[] memories = new NetMemory[ConnectionLayout.STEPS];
    long[] offsets = new long[ConnectionLayout.STEPS];
    for (int slot = 0; slot < offsets.length; slot++) {
      memories[slot] = network.register(memory.connection().data());
      offsets[slot] = LAYOUT.simple(slot);
    }
    ProxyChannel direct =
        new ProxyChannel(
            0, data, credit, memories, offsets, 1024, LineMark.SIZE.mostPadded(LAYOUT));
    SendProxy proxy = new SendProxy(network, direct, RANKS, events(true));
    fillSimple(0, bytes);
    assertEquals(1, proxy.doWork());
    assertEquals(sent, messages.get(0).bytes);
    RecvProxy receiving =
        new RecvProxy(network, sizedChannel, RANKS, /* polled= */ true, events(false));
    receiving.doWork();
    messages.get(1).come(sent, 0);
    receiving.doWork();
    assertEquals(0, sizedData.getLong((int) LAYOUT.ll(0)), "no lines");
    assertEquals(1, sizedChannel.tail());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2, 32})
  void theSizeSaysThatAMessageHoldsLines(int lines) {
    SendProxy proxy = new SendProxy(network, sizedChannel, RANKS, events(true));
    announce(sizedData, 0, 8 * lines);
    for (int line = 0; line < lines; line++) {
      storeLine(sizedData, 0, line);
    }
    assertEquals(1, proxy.doWork());
    int sent = messages.get(0).bytes;
    assertEquals(8 + 8 * lines + 1, sent);
    for (int at = 0; at < 16 * lines; at += 8) {
      sizedData.putLong((int) LAYOUT.ll(0) + at, 0);
    }
    RecvProxy receiving =
        new RecvProxy(network, sizedChannel, RANKS, /* polled= */ true, events(false));
    receiving.doWork();
    messages.get(1).come(sent, 0);
    receiving.doWork();
    for (int line = 0; line < lines; line++) {
      int at = (int) LAYOUT.ll(0) + 16 * line;
      assertEquals(line, sizedData.getInt(at));
      assertEquals(1, sizedData.getInt(at + 4));
      assertEquals(-line, sizedData.getInt(at + 8));
      assertEquals(1 + (SIGNATURE << 16), sizedData.getInt(at + 12));
    }
    assertEquals(1, sizedChannel.tail());
  }

  /** Exposed steps in Simple of a network without notes, of which short ones are odd. */
  @ParameterizedTest
  @CsvSource({"17, false", "16, true", "65537, true"})
  void exposedStepsOfASizeOfLinesAreCopiedIntoTheirSlots(int bytes, boolean direct) {
    List<String> copied = new ArrayList<>();
    DeviceMemory buffer = HostDevice.instance().allocate(1 << 20);
    Connection.ExposedSteps steps =
        (Connection.ExposedSteps)
            Proxy.newProxyInstance(
                Connection.ExposedSteps.class.getClassLoader(),
                new Class<?>[] {Connection.ExposedSteps.class},
                (self, method, arguments) ->
                    switch (method.getName()) {
                      case "isExposed", "begin" -> true;
                      case "bytes" -> bytes;
                      case "memory" -> buffer;
                      case "offset" -> 0L;
                      case "fill" -> {
                        copied.add("step " + arguments[0] + ", " + arguments[1] + " bytes");
                        yield null;
                      }
                      default -> null;
                    });
    ExposedBuffers exposed = new ExposedBuffers(steps, network, /* placed= */ false, null);
    SendProxy proxy = new SendProxy(network, sizedChannel, RANKS, events(true), exposed);
    fillSimple(sizedData, 0, bytes);
    assertEquals(1, proxy.doWork());
    assertEquals(direct ? bytes : bytes + 1, messages.get(0).bytes);
    assertEquals(direct ? List.of() : List.of("step 0, " + bytes + " bytes"), copied);
    proxy.close();
    buffer.close();
  }
}
