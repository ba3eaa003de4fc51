package org.nccl4j.transport.net;

import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetEgress;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/** The connections of a rank that go through another rank of its host (PXN). */
final class PxnRoutes {
  private final TransportContext context;

  PxnRoutes(TransportContext context) {
    this.context = context;
  }

  /**
   * A way out by another rank.
   *
   * @param rank the other
   * @param device its network's device
   */
  record Route(int rank, String device) {
    String describe() {
      return "through %s and the memory of rank %d beside it (PXN)".formatted(device, rank);
    }
  }

  /**
   * The way to a peer, if it leads by another rank that can be used so: one that memory and file
   * descriptors can be shared with, and that has the network. Says nothing where the network does
   * not have the device.
   */
  Optional<Route> relay(PeerInfo peer, String name, Net net) {
    Optional<NetEgress> egress = context.egressTo(peer.rank());
    if (egress.isEmpty() || egress.get().rank() == context.rank()) {
      return Optional.empty();
    }
    PeerInfo self = context.peers().get(context.rank());
    PeerInfo other = context.peers().get(egress.get().rank());
    Optional<String> device =
        carries(other, self, name) ? device(egress.get().devices(), net) : Optional.empty();
    return device.map(found -> new Route(other.rank(), found));
  }

  private static boolean carries(PeerInfo relay, PeerInfo sender, String net) {
    return sender.sharesHost(relay)
        && relay.deviceKind() == sender.deviceKind()
        && relay.nets().contains(net);
  }

  /**
   * True if data of a rank for another leave as the topology has it, as far as all ranks know: not
   * where a relay cannot be used. One of the two is this rank, or this rank is the relay.
   */
  boolean leadsAsPlanned(PeerInfo from, PeerInfo to, String net) {
    if (from.rank() != context.rank() && to.rank() != context.rank()) {
      return true;
    }
    Optional<NetEgress> egress =
        from.rank() == context.rank()
            ? context.egressTo(to.rank())
            : context.egressFrom(from.rank());
    return egress.isEmpty()
        || egress.get().rank() == from.rank()
        || to.rank() == context.rank()
            && carries(context.peers().get(egress.get().rank()), from, net);
  }

  private static Optional<String> device(List<String> names, Net net) {
    return names.stream()
        .flatMap(name -> net.devices().stream().filter(device -> device.includes(name)))
        .map(NetDevice::name)
        .findFirst();
  }

  /** The devices of a way that leads by none, best first. */
  List<String> ownDevices(PeerInfo peer) {
    Optional<NetEgress> egress = context.egressTo(peer.rank());
    return egress.isPresent() && egress.get().rank() == context.rank()
        ? egress.get().devices()
        : List.of();
  }

  /**
   * The network that another rank wants this one to send by.
   *
   * @throws InvalidUsageException if it is not one of this rank's
   */
  Net network(PxnRequest request, PeerInfo from, List<String> own, Function<String, Net> opened) {
    if (!own.contains(request.net())) {
      throw missing("network " + request.net(), from, Settings.NCCL_NET.name());
    }
    return opened.apply(request.net());
  }

  /**
   * The number of the device that another rank wants this one to send by.
   *
   * @throws InvalidUsageException if the network does not have it here
   */
  int device(PxnRequest request, PeerInfo from, Net net) {
    List<NetDevice> devices = net.devices();
    for (int device = 0; device < devices.size(); device++) {
      if (devices.get(device).name().equals(request.device())) {
        return device;
      }
    }
    throw missing("network device " + request.device(), from, "NCCL_SOCKET_IFNAME, NCCL_IB_HCA");
  }

  private InvalidUsageException missing(String what, PeerInfo from, String settings) {
    return new InvalidUsageException(
        ErrorId.SETTINGS_DIFFER,
        "rank %d is to forward the data of rank %d through %s, which it does not have"
            .formatted(context.rank(), from.rank(), what),
        "give all ranks of a host the same %s, or set NCCL_PXN_DISABLE=1".formatted(settings));
  }
}
