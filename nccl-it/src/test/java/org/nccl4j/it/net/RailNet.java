package org.nccl4j.it.net;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;

/**
 * Sockets over loopback that show several devices, rail0, rail1 and so on, and count what leaves by
 * each. Each connection that has sent data says that its path was replaced once. It is found by
 * name only.
 */
public final class RailNet extends OverSockets {
  static final String NAME = "Rails";

  /** Bytes by rank and device, and what came in by another rail than it went out. */
  static final Map<String, AtomicLong> SENT = new ConcurrentSkipListMap<>();

  /** For the service loader. */
  public RailNet() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  protected Net over(NetContext context, Net sockets) {
    return new Rails(context.rank(), sockets);
  }

  private record Rails(int rank, Net inner) implements Net {
    @Override
    public List<NetDevice> devices() {
      NetDevice lo = inner.devices().get(0);
      List<NetDevice> rails = new ArrayList<>();
      for (int rail = 0; rail < Integer.getInteger("nccl4j.rails", 2); rail++) {
        rails.add(
            new NetDevice(
                "rail" + rail,
                "",
                rail,
                1,
                lo.megabits(),
                lo.latencyMicros(),
                lo.pointers(),
                lo.maxReceives(),
                lo.maxBytes()));
      }
      return rails;
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
      return new Listener(device, inner.listen(0));
    }

    @Override
    public NetListener listen(int device, int peer) {
      return new Listener(device, inner.listen(0, peer));
    }

    @Override
    public NetSender connect(int device, byte[] handle) {
      return sender(device, handle, inner.connect(0, rest(handle)));
    }

    @Override
    public NetSender connect(int device, int peer, byte[] handle) {
      return sender(device, handle, inner.connect(0, peer, rest(handle)));
    }

    private static byte[] rest(byte[] handle) {
      return ByteBuffer.allocate(handle.length - 1).put(handle, 1, handle.length - 1).array();
    }

    private NetSender sender(int device, byte[] handle, NetSender made) {
      String crossed = handle[0] == device ? "" : " across";
      String name = "rank %d by rail%d%s".formatted(rank, device, crossed);
      return new Sender(
          made, SENT.computeIfAbsent(name, none -> new AtomicLong()), new AtomicLong());
    }

    @Override
    public void close() {
      inner.close();
    }
  }

  private record Listener(int device, NetListener inner) implements NetListener {
    @Override
    public byte[] handle() {
      byte[] handle = inner.handle();
      return ByteBuffer.allocate(1 + handle.length).put((byte) device).put(handle).array();
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

  private record Sender(NetSender inner, AtomicLong sent, AtomicLong own) implements NetSender {
    @Override
    public boolean isConnected() {
      return inner.isConnected();
    }

    @Override
    public NetRequest isend(NetMemory memory, long offset, int bytes, int tag) {
      return isend(memory, offset, bytes, tag, 0);
    }

    @Override
    public NetRequest isend(NetMemory memory, long offset, int bytes, int tag, int note) {
      NetRequest request = inner.isend(memory, offset, bytes, tag, note);
      if (request != null) {
        sent.addAndGet(bytes);
        own.addAndGet(bytes);
      }
      return request;
    }

    @Override
    public Failovers failovers() {
      return own.get() == 0 ? Failovers.NONE : new Failovers(1, 1, own.get(), "rail");
    }

    @Override
    public NetMemory register(DeviceMemory memory) {
      return inner.register(memory);
    }

    @Override
    public NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
      return inner.registerDmaBuf(memory, fd, offset);
    }

    @Override
    public void close() {
      inner.close();
    }
  }
}
