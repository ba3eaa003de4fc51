package org.nccl4j.transport.net.ib;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.control.RemotePort;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.verbs.Gid;

/**
 * The address of the other port for packets. On an InfiniBand subnet that is its LID. Between
 * subnets a router takes them: they carry both GIDs, and go to the LID that the remote GID names
 * (its FLID) where it names one. RoCE has no LIDs, only GIDs. Source: InfiniBand Architecture
 * Specification, volume 1, chapters 4, 7 and 8.
 */
final class IbPath {
  private static final int HOP_LIMIT = 255;

  private IbPath() {}

  /**
   * Fills the address of a queue pair's attributes.
   *
   * @throws SystemErrorException if one end is InfiniBand and the other RoCE
   */
  static void fill(Offheap attributes, IbSettings settings, LocalQpInfo local, RemotePort remote) {
    boolean ethernet = local.port().ethernet();
    if (ethernet != remote.ethernet()) {
      throw new SystemErrorException(
          ErrorId.INFINIBAND,
          "InfiniBand: port %s is %s, and the other rank's port (%s) %s"
              .formatted(local.port().name(), layer(ethernet), remote, layer(!ethernet)),
          "choose ports of one kind on all hosts by NCCL_IB_HCA, or leave both out by"
              + " NCCL_IB_DISABLE=1");
    }
    boolean routed = !ethernet && local.gid().subnetPrefix() != remote.subnetPrefix();
    attributes
        .putByte(QP_ATTR_SL, settings.serviceLevel())
        .putByte(QP_ATTR_AH_PORT_NUM, local.port().port());
    if (!ethernet) {
      int router = routed ? Gid.flid(remote.gid()) : 0;
      attributes.putShort(QP_ATTR_DLID, router != 0 ? router : remote.lid());
    }
    if (ethernet || routed || remote.lid() == 0) {
      attributes
          .putByte(QP_ATTR_IS_GLOBAL, 1)
          .putBytes(QP_ATTR_DGID, remote.gid())
          .putByte(QP_ATTR_SGID_INDEX, local.gid().index())
          .putByte(QP_ATTR_HOP_LIMIT, HOP_LIMIT)
          .putByte(QP_ATTR_TRAFFIC_CLASS, settings.trafficClass());
    }
  }

  private static String layer(boolean ethernet) {
    return ethernet ? "RoCE" : "InfiniBand";
  }
}
