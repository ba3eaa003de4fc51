package org.nccl4j.it.net;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Random;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.net.RelayWire.Fault;
import org.nccl4j.it.net.RelayWire.Passing;

/**
 * Sockets over loopback, where what rank 1 sends to rank 2 goes through a relay that lets a piece
 * pass every 20 milliseconds. It is found by name only.
 */
public final class ThrottledNet extends OverSockets {
  static final String NAME = "Throttled";
  private static final int FROM = 1;
  private static final int TO = 2;
  private static final long PIECE_NANOS = 20_000_000;

  /** Where a handle of sockets has its port: see SocketHandle. */
  private static final int PORT = 2;

  /** For the service loader. */
  public ThrottledNet() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  protected Net over(NetContext context, Net sockets) {
    return new Throttled(context.rank(), sockets);
  }

  private record Throttled(int rank, Net inner) implements Net {
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
      return inner.listen(device);
    }

    @Override
    public NetListener listen(int device, int peer) {
      return inner.listen(device, peer);
    }

    @Override
    public NetSender connect(int device, byte[] handle) {
      return inner.connect(device, handle);
    }

    @Override
    public NetSender connect(int device, int peer, byte[] handle) {
      return inner.connect(device, peer, rank == FROM && peer == TO ? relayed(handle) : handle);
    }

    @Override
    public void close() {
      inner.close();
    }
  }

  /** The handle with the port of a relay, which lives as long as the process. */
  private static byte[] relayed(byte[] handle) {
    byte[] relayed = handle.clone();
    ByteBuffer bytes = ByteBuffer.wrap(relayed);
    int port = bytes.getShort(PORT) & 0xffff;
    try {
      Wire wire = new Wire(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
      bytes.putShort(PORT, (short) wire.port());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return relayed;
  }

  private static final class Wire extends RelayWire {
    Wire(InetSocketAddress target) throws IOException {
      super(target, new Random(1), false);
      start();
    }

    @Override
    Fault connected() {
      return (got, there) -> {
        if (there) {
          Patience.sleep(PIECE_NANOS);
        }
        return new Passing(got, false);
      };
    }
  }
}
