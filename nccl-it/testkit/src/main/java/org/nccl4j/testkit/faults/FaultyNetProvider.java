package org.nccl4j.testkit.faults;

import java.util.List;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.SystemErrorException;

/** A network that behaves badly in chosen ways, around one that does not. */
public final class FaultyNetProvider implements NetProvider {
  private final NetProvider inner;
  private final NetFaults faults;

  /** Faults around a network. */
  public FaultyNetProvider(NetProvider inner, NetFaults faults) {
    this.inner = inner;
    this.faults = faults;
  }

  @Override
  public String name() {
    return inner.name();
  }

  @Override
  public int priority() {
    return inner.priority();
  }

  @Override
  public Support support(NetContext context) {
    return inner.support(context);
  }

  @Override
  public Net open(NetContext context) {
    return new FaultyNet(inner.open(context), faults);
  }

  private record FaultyNet(Net inner, NetFaults faults) implements Net {
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
      return new FaultyListener(inner.listen(device), faults);
    }

    @Override
    public NetListener listen(int device, int peer) {
      return new FaultyListener(inner.listen(device, peer), faults);
    }

    @Override
    public NetSender connect(int device, byte[] handle) {
      refuse();
      return new FaultyConnection.Sender(inner.connect(device, handle), faults);
    }

    @Override
    public NetSender connect(int device, int peer, byte[] handle) {
      refuse();
      return new FaultyConnection.Sender(inner.connect(device, peer, handle), faults);
    }

    private void refuse() {
      if (!faults.connects()) {
        throw new SystemErrorException(
            "the connection is refused", "nothing: this is an injected fault");
      }
    }

    @Override
    public void close() {
      inner.close();
    }
  }

  private record FaultyListener(NetListener inner, NetFaults faults) implements NetListener {
    @Override
    public byte[] handle() {
      return inner.handle();
    }

    @Override
    public NetReceiver accept() {
      NetReceiver accepted = inner.accept();
      return accepted == null ? null : new FaultyConnection.Receiver(accepted, faults);
    }

    @Override
    public void close() {
      inner.close();
    }
  }
}
