package org.nccl4j.transport.net;

import java.util.Optional;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.api.spi.LinkStatus;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.transport.net.memory.SharedEnd;

/**
 * The sending end of a connection by way of another rank of this host (PXN): this rank's kernels
 * fill slots in that rank's memory, and its proxy sends them by the network device that is nearest
 * to it. It is connected once that memory has come, which is when the other has connected.
 */
final class PxnSender implements NetConnector {
  private final TransportContext context;
  private final PeerInfo peer;
  private final int relay;
  private final PxnMail mail;
  private final PxnRequest request;
  private final int channels;

  /** Null until it has come, and after close. */
  private PxnMemory memory;

  /**
   * A sender.
   *
   * @param route by which rank and device
   * @param net the network's name
   */
  PxnSender(
      TransportContext context, PeerInfo peer, PxnRoutes.Route route, PxnMail mail, String net) {
    this.context = context;
    this.peer = peer;
    this.relay = route.rank();
    this.mail = mail;
    this.channels = NetEnd.channels(context, peer);
    this.request = new PxnRequest(mail.nextRequest(), channels, net, route.device(), mail.path());
  }

  @Override
  public byte[] handle() {
    return request.toBytes();
  }

  /** The rank that sends. */
  int relay() {
    return relay;
  }

  @Override
  public boolean connect(byte[] remoteHandle) {
    if (memory == null) {
      mail.take(request.number()).ifPresent(this::map);
    }
    return memory != null;
  }

  private void map(SharedEnd come) {
    try {
      memory = PxnMemory.of(come, context, channels);
    } catch (CudaException e) {
      throw new RemoteException(
          ErrorId.PEER_MEMORY,
          "rank %d cannot reach the memory of rank %d, which forwards its data to rank %d (PXN): %s"
              .formatted(context.rank(), relay, peer.rank(), e.problem()),
          "set NCCL_PXN_DISABLE=1 on all ranks; each then sends through its own NIC",
          e);
    }
  }

  @Override
  public Connection connection() {
    return memory.connection();
  }

  /**
   * The card beside the other rank, where this rank's kernels count what they send: on the host.
   * GPUs count nothing here, so their link has the card by which it receives.
   */
  @Override
  public LinkStatus status() {
    boolean counts = context.peers().get(context.rank()).deviceKind() == Device.Kind.HOST;
    return counts
        ? LinkStatus.sent(0, 0, request.net() + "/" + request.device(), Failovers.NONE)
        : LinkStatus.NONE;
  }

  /** The other rank's proxy sends; here it is only seen to that all has been sent before close. */
  @Override
  public Optional<ProxyHandler> proxy() {
    return Optional.of(new Unsent(memory, channels));
  }

  private record Unsent(PxnMemory memory, int channels) implements ProxyHandler {
    @Override
    @HotPath
    public int doWork() {
      return 0;
    }

    @Override
    @HotPath
    public boolean isUnderWay() {
      for (int channel = 0; channel < channels; channel++) {
        if (!memory.isSent(channel)) {
          return true;
        }
      }
      return false;
    }
  }

  @Override
  public void close() {
    if (memory != null) {
      memory.close();
      memory = null;
    }
  }

  @Override
  public String toString() {
    return "sender to rank %d through rank %d, whose memory has %s"
        .formatted(peer.rank(), relay, memory == null ? "not arrived" : "arrived");
  }
}
