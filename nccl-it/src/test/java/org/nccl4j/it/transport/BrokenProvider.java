package org.nccl4j.it.transport;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;

/** A transport inside one process with a defect. */
record BrokenProvider(Defect defect) implements TransportProvider {
  /** The provider's defect. */
  enum Defect {
    /** All have it; the only one of this. */
    FREES_TOO_EARLY,
    LONG_HANDLE,
    NOT_ZEROED,
    MISALIGNED,
    TOO_SMALL,
    ONE_REGION_FOR_ALL,
    PRIVATE_COPY,
    NEVER_CLOSES,
    BELIEVES_ANY_HANDLE,
    NO_REASON,
    SLOW_CONNECT,
    SLOW_CLOSE
  }

  private static final Map<Long, DeviceMemory> REGIONS = new ConcurrentHashMap<>();
  private static final AtomicLong NEXT = new AtomicLong();

  @Override
  public String name() {
    return "broken";
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Transport open(TransportContext context) {
    return new BrokenTransport(defect, context);
  }

  private static final class BrokenTransport implements Transport {
    private final Defect defect;
    private final TransportContext context;
    private final List<DeviceMemory> own = new ArrayList<>();
    private boolean closed;

    BrokenTransport(Defect defect, TransportContext context) {
      this.defect = defect;
      this.context = context;
    }

    @Override
    public Support canConnect(PeerInfo peer) {
      return Support.yes(defect == Defect.NO_REASON ? "" : "same process");
    }

    @Override
    public Connector sender(PeerInfo peer) {
      return new BrokenConnector(this, allocate(ConnectionLayout.CREDIT_BYTES), true);
    }

    @Override
    public Connector receiver(PeerInfo peer) {
      return new BrokenConnector(this, allocate(context.layout().dataBytes()), false);
    }

    private DeviceMemory allocate(long bytes) {
      checkOpen();
      if (defect == Defect.ONE_REGION_FOR_ALL && own.size() > 1) {
        return own.get(own.size() - 2).slice(0, Math.min(bytes, own.get(own.size() - 2).size()));
      }
      DeviceMemory whole = context.device().allocate(bytes + 8);
      own.add(whole);
      if (defect == Defect.NOT_ZEROED) {
        whole.fill((byte) 1);
      }
      return whole.slice(
          defect == Defect.MISALIGNED ? 8 : 0, bytes - (defect == Defect.TOO_SMALL ? 8 : 0));
    }

    void checkOpen() {
      if (closed) {
        throw new InvalidUsageException("used after close", "do not");
      }
    }

    @Override
    public void close() {
      if (defect == Defect.SLOW_CLOSE) {
        LockSupport.parkNanos(200_000_000);
      }
      if (defect != Defect.NEVER_CLOSES) {
        closed = true;
        own.forEach(DeviceMemory::close);
      }
    }
  }

  private static final class BrokenConnector implements Connector {
    private final BrokenTransport transport;
    private final DeviceMemory own;
    private final boolean sends;
    private final long number = NEXT.incrementAndGet();
    private DeviceMemory other;

    @Override
    public String toString() {
      return "broken connector " + number;
    }

    BrokenConnector(BrokenTransport transport, DeviceMemory own, boolean sends) {
      this.transport = transport;
      this.own = own;
      this.sends = sends;
      REGIONS.put(number, own);
    }

    @Override
    public byte[] handle() {
      byte[] handle = ByteBuffer.allocate(8).putLong(number).array();
      return transport.defect == Defect.LONG_HANDLE
          ? Arrays.copyOf(handle, Connector.HANDLE_BYTES + 1)
          : handle;
    }

    @Override
    public boolean connect(byte[] remoteHandle) {
      if (transport.defect == Defect.SLOW_CONNECT) {
        LockSupport.parkNanos(30_000_000);
      }
      if (transport.defect == Defect.BELIEVES_ANY_HANDLE && remoteHandle.length < 8) {
        other = own;
        return true;
      }
      DeviceMemory found =
          remoteHandle.length < 8 ? null : REGIONS.get(ByteBuffer.wrap(remoteHandle).getLong());
      if (found == null || found == own) {
        throw new RemoteException("a handle of nobody", "use another");
      }
      boolean copies = transport.defect == Defect.PRIVATE_COPY;
      other = copies ? transport.allocate(found.size()) : found;
      return true;
    }

    @Override
    public Connection connection() {
      transport.checkOpen();
      if (other == null) {
        throw new InvalidUsageException("not connected", "connect it");
      }
      return sends ? new Connection(other, own) : new Connection(own, other);
    }
  }
}
