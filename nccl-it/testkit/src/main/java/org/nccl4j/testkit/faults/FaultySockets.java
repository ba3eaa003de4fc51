package org.nccl4j.testkit.faults;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/**
 * Sockets with faults, for testing programs: {@code NCCL_NET=FaultySocket} with the faults in
 * {@code NCCL4J_FAULTS}, a list such as {@code seed=3,piece=61,resetsAfter=100000}. Beside the
 * fields of {@link WireFaults} (the stall's length is {@code stallMillis}) it takes those of {@link
 * NetFaults} but connects. Without the setting it cannot be used.
 */
public final class FaultySockets implements NetProvider {
  private static final String SETTING = "NCCL4J_FAULTS";

  /**
   * Offset of the port in a handle of sockets; the next field is that of the number of addresses.
   */
  private static final int PORT_AT = 2;

  private static final int ADDRESSES_AT = 19;

  /** The bits of an address's length; above them are those of its speed. */
  private static final int LENGTH = 31;

  private final NetProvider sockets = new SocketNetProvider();

  /** Called by {@link java.util.ServiceLoader}. */
  public FaultySockets() {}

  @Override
  public String name() {
    return "FaultySocket";
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Support support(NetContext context) {
    if (context.setting(SETTING).isEmpty()) {
      return Support.no("it is for tests: name the faults in " + SETTING);
    }
    faults(context);
    return sockets.support(context);
  }

  @Override
  public Net open(NetContext context) {
    Fields fields = faults(context);
    Net net = new FaultyNetProvider(sockets, fields.net()).open(context);
    return new WiredNet(net, fields.wire(), new ArrayList<>());
  }

  private static Fields faults(NetContext context) {
    Map<String, Long> fields = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    for (String each : context.setting(SETTING).orElse("").split(",")) {
      String[] pair = each.trim().split("=", 2);
      try {
        fields.put(pair[0], pair.length < 2 ? 1 : Long.parseLong(pair[1].trim()));
      } catch (NumberFormatException e) {
        throw wrong(each, e);
      }
      if (!Fields.NAMES.contains(pair[0].toLowerCase(Locale.ROOT)) || fields.get(pair[0]) < 0) {
        throw wrong(each, null);
      }
    }
    return new Fields(fields);
  }

  private static InvalidArgumentException wrong(String field, Exception cause) {
    return new InvalidArgumentException(
        "%s has \"%s\"".formatted(SETTING, field),
        "write name=number, separated by commas; names are " + Fields.NAMES,
        cause);
  }

  private record Fields(Map<String, Long> fields) {
    static final List<String> NAMES =
        List.of(
            "seed",
            "piece",
            "stallsevery",
            "stallmillis",
            "stopsafter",
            "resetsafter",
            "flipsat",
            "refusals",
            "delaylooks",
            "reorders",
            "dropsafter",
            "diesafter");

    private long number(String name, long otherwise) {
      return fields.getOrDefault(name, otherwise);
    }

    WireFaults wire() {
      return new WireFaults(
          number("seed", 0),
          (int) number("piece", 0),
          number("stallsEvery", NetFaults.NEVER),
          Duration.ofMillis(number("stallMillis", 0)),
          number("stopsAfter", NetFaults.NEVER),
          number("resetsAfter", NetFaults.NEVER),
          number("flipsAt", NetFaults.NEVER));
    }

    NetFaults net() {
      return new NetFaults(
          number("seed", 0),
          (int) number("refusals", 0),
          (int) number("delayLooks", 0),
          number("reorders", 0) > 0,
          number("dropsAfter", NetFaults.NEVER),
          number("diesAfter", NetFaults.NEVER),
          true);
    }
  }

  /** Puts a wire before each listener. */
  private record WiredNet(Net inner, WireFaults faults, List<WiredListener> wired) implements Net {
    @Override
    public List<NetDevice> devices() {
      return inner.devices();
    }

    @Override
    public boolean spreads() {
      return inner.spreads();
    }

    @Override
    public boolean carriesNotes() {
      return inner.carriesNotes();
    }

    @Override
    public NetListener listen(int device) {
      NetListener listener = inner.listen(device);
      byte[] handle = listener.handle();
      try {
        FaultyWire wire = FaultyWire.before(where(handle), faults);
        ByteBuffer.wrap(handle).putShort(PORT_AT, (short) wire.port());
        WiredListener made = new WiredListener(listener, wire, handle);
        wired.add(made);
        return made;
      } catch (IOException e) {
        throw new SystemErrorException(
            "no port for a wire with faults: " + e.getMessage(), "free some ports", e);
      }
    }

    private static InetSocketAddress where(byte[] handle) throws UnknownHostException {
      ByteBuffer in = ByteBuffer.wrap(handle);
      int port = in.getShort(PORT_AT) & 0xffff;
      byte[] address = new byte[in.position(ADDRESSES_AT + 1).get() & LENGTH];
      in.get(address);
      return new InetSocketAddress(InetAddress.getByAddress(address), port);
    }

    @Override
    public NetSender connect(int device, byte[] handle) {
      return inner.connect(device, handle);
    }

    @Override
    public void close() {
      inner.close();
      wired.forEach(each -> each.wire.close());
      wired.clear();
    }
  }

  private record WiredListener(NetListener inner, FaultyWire wire, byte[] handle)
      implements NetListener {
    @Override
    public byte[] handle() {
      return handle.clone();
    }

    @Override
    public NetReceiver accept() {
      return inner.accept();
    }

    @Override
    public void close() {
      inner.close();
    }
  }
}
