package org.nccl4j.testkit.faults;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Random;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RemoteException;

/** One end of a connection that behaves badly in chosen ways. */
abstract class FaultyConnection implements NetConnection {
  final NetFaults faults;
  private final NetConnection inner;
  private final Random random;
  private final Deque<Request> underWay = new ArrayDeque<>();
  private long messages;

  FaultyConnection(NetConnection inner, NetFaults faults) {
    this.inner = inner;
    this.faults = faults;
    this.random = new Random(faults.seed());
  }

  /** True if a message may begin now. */
  final boolean mayBegin() {
    if (messages >= faults.diesAfter()) {
      throw new RemoteException("the connection broke", "nothing: this is an injected fault");
    }
    return random.nextInt(100) >= faults.refusals();
  }

  final boolean isDropped() {
    return messages >= faults.dropsAfter();
  }

  final NetRequest begun(NetRequest request) {
    messages++;
    int looks = faults.delayLooks() == 0 ? 0 : random.nextInt(faults.delayLooks());
    Request made = new Request(request, looks);
    underWay.add(made);
    return made;
  }

  @Override
  public NetMemory register(DeviceMemory memory) {
    return inner.register(memory);
  }

  @Override
  public NetMemory register(DeviceMemory memory, Object registration) {
    return inner.register(memory, registration);
  }

  @Override
  public NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
    return inner.registerDmaBuf(memory, fd, offset);
  }

  @Override
  public boolean registersFreely() {
    return inner.registersFreely();
  }

  @Override
  public void close() {
    inner.close();
  }

  /** A message of which it is not said at once that it has ended. */
  private final class Request implements NetRequest {
    private final NetRequest request;
    private final int[] size = new int[1];
    private int looks;
    private boolean ended;

    Request(NetRequest request, int looks) {
      this.request = request;
      this.looks = looks;
    }

    private void look() {
      ended = ended || (request != null && request.test(size));
    }

    @Override
    public boolean redirect(NetMemory memory, long offset, int bytes) {
      return request != null && !ended && request.redirect(memory, offset, bytes);
    }

    @Override
    public boolean stay() {
      return request == null || ended || request.stay();
    }

    @Override
    public boolean isRedirected() {
      return request != null && request.isRedirected();
    }

    @Override
    public int note() {
      return request == null ? 0 : request.note();
    }

    @Override
    public boolean test(int[] sizes) {
      if (messages > faults.diesAfter()) {
        throw new RemoteException("the connection broke", "nothing: this is an injected fault");
      }
      if (faults.reorders()) {
        underWay.forEach(Request::look);
      } else {
        look();
      }
      if (!ended || looks-- > 0) {
        return false;
      }
      underWay.remove(this);
      if (sizes != null) {
        sizes[0] = size[0];
      }
      return true;
    }
  }

  /** The sending end. */
  static final class Sender extends FaultyConnection implements NetSender {
    private final NetSender inner;

    Sender(NetSender inner, NetFaults faults) {
      super(inner, faults);
      this.inner = inner;
    }

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
      return send(memory, offset, bytes, tag, note, /* placed= */ false);
    }

    @Override
    public NetRequest isendPlaced(NetMemory memory, long offset, int bytes, int tag, int note) {
      return send(memory, offset, bytes, tag, note, /* placed= */ true);
    }

    private NetRequest send(
        NetMemory memory, long offset, int bytes, int tag, int note, boolean placed) {
      if (!mayBegin()) {
        return null;
      }
      if (isDropped()) {
        return begun(null);
      }
      NetRequest request =
          placed
              ? inner.isendPlaced(memory, offset, bytes, tag, note)
              : inner.isend(memory, offset, bytes, tag, note);
      return request == null ? null : begun(request);
    }

    @Override
    public Failovers failovers() {
      return inner.failovers();
    }
  }

  /** The receiving end. */
  static final class Receiver extends FaultyConnection implements NetReceiver {
    private final NetReceiver inner;

    Receiver(NetReceiver inner, NetFaults faults) {
      super(inner, faults);
      this.inner = inner;
    }

    @Override
    public NetRequest irecv(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags) {
      if (!mayBegin()) {
        return null;
      }
      NetRequest request = inner.irecv(n, memories, offsets, bytes, tags);
      return request == null ? null : begun(request);
    }

    @Override
    public boolean owesAnswer() {
      return inner.owesAnswer();
    }

    @Override
    public boolean redirects() {
      return inner.redirects();
    }

    @Override
    public void tellPlaces() {
      inner.tellPlaces();
    }

    @Override
    public NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes) {
      return inner.iflush(n, memories, offsets, bytes);
    }
  }
}
