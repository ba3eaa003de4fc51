package org.nccl4j.it.api;

import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.it.net.OverSockets;

/**
 * The socket network, where those connections that this process begins or awaits lead through
 * {@link CuttableForwarder} while it has some. It is found by name only.
 */
public final class CuttableNet extends OverSockets {
  static final String NAME = "Cuttable";

  /** Where a handle of sockets has its port, and its list of addresses: see SocketHandle. */
  private static final int PORT = 2;

  private static final int ADDRESSES = 19;

  /** The bits of an address's length; above them are those of its speed. */
  private static final int LENGTH = 31;

  /** This process's; null where its connections are direct. */
  static volatile CuttableForwarder cables;

  /** For the service loader. */
  public CuttableNet() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  protected Net over(NetContext context, Net sockets) {
    return new Cut(sockets);
  }

  private record Cut(Net inner) implements Net {
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
      return new Listener(listener, detour(listener.handle()));
    }

    @Override
    public NetListener listen(int device, int peer) {
      NetListener listener = inner.listen(device, peer);
      return new Listener(listener, detour(listener.handle()));
    }

    @Override
    public NetSender connect(int device, byte[] handle) {
      return inner.connect(device, detour(handle));
    }

    @Override
    public NetSender connect(int device, int peer, byte[] handle) {
      return inner.connect(device, peer, detour(handle));
    }

    @Override
    public void close() {
      inner.close();
    }
  }

  private record Listener(NetListener inner, byte[] handle) implements NetListener {
    @Override
    public NetReceiver accept() {
      return inner.accept();
    }

    @Override
    public void close() {
      inner.close();
    }
  }

  /** The handle of a forwarder to a handle's first address. */
  private static byte[] detour(byte[] handle) {
    CuttableForwarder through = cables;
    if (through == null) {
      return handle;
    }
    ByteBuffer bytes = ByteBuffer.wrap(handle);
    int port = bytes.getShort(PORT) & 0xffff;
    int length = handle[ADDRESSES + 1] & LENGTH;
    byte[] address = Arrays.copyOfRange(handle, ADDRESSES + 2, ADDRESSES + 2 + length);
    try {
      InetSocketAddress target = new InetSocketAddress(InetAddress.getByAddress(address), port);
      byte[] loopback = InetAddress.getLoopbackAddress().getAddress();
      ByteBuffer other = ByteBuffer.allocate(ADDRESSES + 4 + loopback.length);
      other.put(handle, 0, ADDRESSES).put((byte) 1).put((byte) loopback.length).put(loopback);
      // One rail; and whether it can be a pair's.
      other.put((byte) 1).put(handle[handle.length - 1]);
      other.putShort(PORT, (short) through.to(target));
      return other.array();
    } catch (UnknownHostException e) {
      throw new UncheckedIOException(e);
    }
  }
}
