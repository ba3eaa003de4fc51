package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.transport.net.socket.link.DataSocketCount;
import org.nccl4j.transport.net.socket.link.SharedSocketThreads;
import org.nccl4j.transport.net.socket.link.SocketLink;
import org.nccl4j.transport.net.socket.link.SocketReceiver;
import org.nccl4j.transport.net.socket.link.SocketSource;
import org.nccl4j.transport.net.socket.link.SocketWatch;
import org.nccl4j.transport.net.socket.link.SpareSockets;

/** Awaits the sockets of one connection. */
final class SocketListener implements NetListener {
  private final SocketPort port;
  private final DataSocketCount lanes;
  private final SharedSocketThreads threads;
  private final SocketHandle handle;
  private final DataChannel[] sockets;

  /** By place: the number of the address that the socket was dialled to first. */
  private final int[] dialled;

  private final Awaited awaited = new Awaited();
  private final SocketWatch watch;

  /** Sockets that take over from broken ones. */
  private final AtomicReferenceArray<DataChannel> further;

  /** The link over the sockets that have come, or null. */
  private volatile SocketLink link;

  /** Null while it is not known yet whether the other direction shares its socket. */
  private SocketSource source;

  /** True if what has come is for both directions. */
  private boolean forPair;

  private int missing;

  /** The error of a rank that knows the secret, and has other settings; or null. */
  private InvalidUsageException difference;

  private SocketReceiver receiver;
  private boolean closed;

  /**
   * Awaits sockets.
   *
   * @param paired whether it is going to be told where they come from
   */
  SocketListener(
      SocketPort port,
      DataSocketCount lanes,
      SharedSocketThreads threads,
      SocketRails rails,
      boolean paired,
      SocketWatch watch) {
    this.port = port;
    this.source = paired ? null : awaited;
    this.watch = watch;
    this.lanes = lanes;
    this.threads = threads;
    this.handle =
        new SocketHandle(
            lanes.lanes(),
            port.number(),
            SocketRequest.newToken(),
            rails.addresses(),
            rails.speeds(),
            rails.count(),
            paired,
            port.protection().sums(),
            port.protection().encrypted());
    this.sockets = new DataChannel[1 + lanes.lanes()];
    this.dialled = new int[sockets.length];
    this.further = new AtomicReferenceArray<>(sockets.length);
    this.missing = sockets.length;
    port.add(handle.token(), this);
  }

  /** True if a socket of a request is one of this connection's, and has a place. */
  boolean awaits(SocketRequest request) {
    int place = place(request);
    if (request.index() == SocketDialer.DIFFERS) {
      return true;
    }
    if (request.resumes()) {
      return link != null && isPlace(place);
    }
    return !closed
        && link == null
        && request.sockets() == sockets.length
        && isPlace(place)
        && isAddress(request.address());
  }

  private static int place(SocketRequest request) {
    return request.index() == SocketDialer.PAIR ? 0 : request.index();
  }

  private boolean isPlace(int place) {
    return place >= 0 && place < sockets.length;
  }

  private boolean isAddress(int number) {
    return number >= 0 && number < handle.addresses().size();
  }

  /** Takes a socket that knows the secret, unless it is not one of this connection's. */
  boolean admit(DataChannel socket, SocketRequest request) {
    int index = request.index();
    if (index == SocketDialer.DIFFERS) {
      return refuse(socket, handle.sums(), !handle.encrypted());
    }
    if (!awaits(request)) {
      return false;
    }
    int place = place(request);
    if (request.resumes()) {
      resume(socket, place);
      return true;
    }
    if (request.sums() != handle.sums()) {
      return refuse(socket, request.sums(), handle.encrypted());
    }
    if (sockets[place] != null) {
      // Who dialled has given that one up to try another, even if this side cannot see it.
      Sockets.close(sockets[place]);
      missing++;
    }
    forPair = index == SocketDialer.PAIR;
    sockets[place] = socket;
    dialled[place] = request.address();
    missing--;
    return true;
  }

  /** Closes the socket of a rank that knows the secret, and has other settings. */
  private boolean refuse(DataChannel socket, boolean sums, boolean encrypted) {
    difference = port.protection().differs(sums, encrypted, where(socket)).orElse(null);
    Sockets.close(socket);
    return true;
  }

  /** Takes a socket in place of a broken one. */
  private void resume(DataChannel socket, int place) {
    Sockets.close(further.getAndSet(place, socket));
    watch.wake();
  }

  private static String where(DataChannel socket) {
    try {
      return Sockets.text((InetSocketAddress) socket.socket().getRemoteAddress());
    } catch (IOException e) {
      return "an address that is gone";
    }
  }

  /** Returns the number of sockets that are still awaited. */
  int missing() {
    return closed ? 0 : missing;
  }

  /** True if {@link #comeFrom} is to be called. */
  boolean isUndecided() {
    return source == null && !closed;
  }

  /** The sockets that it awaits. */
  SocketSource awaited() {
    return awaited;
  }

  /** Says where its sockets come from. */
  void comeFrom(SocketSource decided) {
    source = decided;
  }

  @Override
  public byte[] handle() {
    return handle.toBytes();
  }

  @Override
  public NetReceiver accept() {
    if (receiver != null) {
      return null;
    }
    if (source == null && awaited.poll() != null && !forPair) {
      source = awaited;
    }
    if (source == null) {
      return null;
    }
    SocketLink connected = source.poll();
    if (connected != null) {
      receiver = new SocketReceiver(source, connected, lanes, threads);
    }
    return receiver;
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      if (link == null || watch.bound().isZero()) {
        leavePort();
      }
      if (receiver == null) {
        (source == null ? awaited : source).close();
      }
    }
  }

  /** Lets the port close with its last listener: a watch that rests would keep it open. */
  private void leavePort() {
    port.remove(handle.token());
    watch.wake();
  }

  /** Closes what it has accepted, too. */
  void closeAll() {
    close();
    if (receiver != null) {
      receiver.close();
    }
  }

  @Override
  public String toString() {
    return "listens on %s, port %d, %d of %d sockets have come%s"
        .formatted(
            handle.addresses(),
            handle.port(),
            sockets.length - missing,
            sockets.length,
            port.refusals());
  }

  private final class Awaited implements SocketSource, SpareSockets {
    @Override
    public SocketLink poll() {
      if (link == null) {
        port.poll();
      }
      synchronized (port) {
        if (difference != null) {
          throw difference;
        }
        if (link == null && missing == 0) {
          link = new SocketLink(sockets, this, watch, handle.sums());
        }
        return link;
      }
    }

    @Override
    public int[] shares() {
      return handle.shares(dialled);
    }

    @Override
    public boolean isOffered(int place) {
      return further.get(place) != null;
    }

    @Override
    public boolean receives() {
      return true;
    }

    @Override
    public DataChannel next(int place) {
      return further.getAndSet(place, null);
    }

    @Override
    public void close() {
      if (link != null) {
        link.end();
        leavePort();
      }
      for (DataChannel socket : sockets) {
        Sockets.close(socket);
      }
      for (int place = 0; place < further.length(); place++) {
        Sockets.close(further.getAndSet(place, null));
      }
    }

    @Override
    public String toString() {
      return SocketListener.this.toString();
    }
  }
}
