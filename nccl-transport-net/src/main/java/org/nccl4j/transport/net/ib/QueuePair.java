package org.nccl4j.transport.net.ib;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.lang.ref.Reference;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.control.RemotePort;
import org.nccl4j.transport.net.ib.device.CompletionQueue;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;
import org.nccl4j.transport.net.ib.verbs.Descriptors;
import org.nccl4j.transport.net.ib.verbs.Gid;
import org.nccl4j.transport.net.ib.verbs.Verbs;
import org.nccl4j.transport.net.ib.verbs.WorkRequests;

/** A reliable connection to one other queue pair. Owned by one thread at a time. */
final class QueuePair implements AutoCloseable {
  private static final int MIN_RNR_TIMER = 12;
  private static final int RNR_RETRY_FOREVER = 7;
  private static final int PSN = 0;

  private final OpenDevice device;
  private final long handle;
  private final int number;
  private final long postSend;
  private final long postReceive;
  private final Offheap receive = new Offheap(RECV_WR_BYTES + Long.BYTES);
  private boolean closed;

  /** New, with room for so many sends and receives under way. */
  QueuePair(OpenDevice device, CompletionQueue queue, int sends, int receives) {
    this.device = device;
    Verbs verbs = device.verbs();
    Offheap attributes =
        new Offheap(QP_INIT_ATTR_BYTES)
            .putLong(QP_INIT_ATTR_SEND_CQ, queue.handle())
            .putLong(QP_INIT_ATTR_RECV_CQ, queue.handle())
            .putInt(QP_INIT_ATTR_MAX_SEND_WR, sends)
            .putInt(QP_INIT_ATTR_MAX_RECV_WR, receives)
            .putInt(QP_INIT_ATTR_MAX_SEND_SGE, 1)
            .putInt(QP_INIT_ATTR_MAX_RECV_SGE, 1)
            .putInt(QP_INIT_ATTR_QP_TYPE, QPT_RC);
    handle = verbs.createQueuePair(device.domain(), attributes);
    number = verbs.queuePairNumber(handle);
    postSend = verbs.postSendFunction(handle);
    postReceive = verbs.postReceiveFunction(handle);
  }

  long handle() {
    return handle;
  }

  int number() {
    return number;
  }

  /** Connects it to a queue pair of the same description there. */
  void connect(IbSettings settings, LocalQpInfo local, RemotePort remote, int remoteNumber) {
    initialise(settings, local);
    int mtu = Math.min(local.port().mtu(), remote.mtu());
    Offheap attributes =
        new Offheap(QP_ATTR_BYTES)
            .putInt(QP_ATTR_QP_STATE, QPS_RTR)
            .putInt(QP_ATTR_PATH_MTU, mtu)
            .putInt(QP_ATTR_DEST_QP_NUM, remoteNumber)
            .putInt(QP_ATTR_RQ_PSN, PSN)
            .putByte(QP_ATTR_MAX_DEST_RD_ATOMIC, 1)
            .putByte(QP_ATTR_MIN_RNR_TIMER, MIN_RNR_TIMER);
    IbPath.fill(attributes, settings, local, remote);
    int mask =
        QP_STATE
            | QP_AV
            | QP_PATH_MTU
            | QP_DEST_QPN
            | QP_RQ_PSN
            | QP_MAX_DEST_RD_ATOMIC
            | QP_MIN_RNR_TIMER;
    int errno = device.verbs().modifyQueuePair(handle, attributes, mask);
    if (errno != 0) {
      throw unreachable(local, remote, errno);
    }
    Offheap ready =
        new Offheap(QP_ATTR_BYTES)
            .putInt(QP_ATTR_QP_STATE, QPS_RTS)
            .putByte(QP_ATTR_TIMEOUT, settings.timeout())
            .putByte(QP_ATTR_RETRY_CNT, settings.retries())
            .putByte(QP_ATTR_RNR_RETRY, RNR_RETRY_FOREVER)
            .putInt(QP_ATTR_SQ_PSN, PSN)
            .putByte(QP_ATTR_MAX_RD_ATOMIC, 1);
    modify(
        ready,
        QP_STATE | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_SQ_PSN | QP_MAX_QP_RD_ATOMIC,
        "ready to send",
        "see the kernel's log (dmesg) for the adapter");
  }

  private void initialise(IbSettings settings, LocalQpInfo local) {
    Offheap attributes =
        new Offheap(QP_ATTR_BYTES)
            .putInt(QP_ATTR_QP_STATE, QPS_INIT)
            .putShort(QP_ATTR_PKEY_INDEX, settings.pkeyIndex())
            .putByte(QP_ATTR_PORT_NUM, local.port().port())
            .putInt(QP_ATTR_ACCESS_FLAGS, ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ);
    modify(
        attributes,
        QP_STATE | QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS,
        "initialised",
        "see that NCCL_IB_PKEY=%d is the index of a partition key of port %s"
            .formatted(settings.pkeyIndex(), local.port().name()));
  }

  private void modify(Offheap attributes, int mask, String state, String remedy) {
    int errno = device.verbs().modifyQueuePair(handle, attributes, mask);
    if (errno != 0) {
      throw Verbs.failed(
          "ibv_modify_qp on device " + device.name() + " to " + state, errno, remedy);
    }
  }

  private static NcclException unreachable(LocalQpInfo local, RemotePort remote, int errno) {
    return new SystemErrorException(
        ErrorId.INFINIBAND,
        "InfiniBand: port %s cannot reach the other rank's port from GID %s to GID %s: %s"
            .formatted(
                local.port().name(),
                local.gid(),
                Gid.text(remote.gid()),
                Descriptors.describe(errno)),
        "see that these two addresses can ping each other; choose others by NCCL_IB_GID_INDEX"
            + " (RoCE v2 with routed IPv4 addresses on every host) or other ports by NCCL_IB_HCA");
  }

  /** Posts a chain. */
  @HotPath
  void post(WorkRequests requests) {
    int errno = Verbs.post(postSend, handle, requests.address(), requests.bad());
    Reference.reachabilityFence(requests);
    if (errno != 0) {
      throw refused("ibv_post_send", errno);
    }
  }

  /** Posts a receive without memory, for a write with immediate to end. */
  @HotPath
  void postReceive(long id) {
    receive.putLong(RECV_WR_WR_ID, id);
    int errno =
        Verbs.post(postReceive, handle, receive.address(), receive.address() + RECV_WR_BYTES);
    Reference.reachabilityFence(receive);
    if (errno != 0) {
      throw refused("ibv_post_recv", errno);
    }
  }

  private SystemErrorException refused(String call, int errno) {
    return Verbs.failed(
        call + " on device " + device.name(), errno, "see the first error of this connection");
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      device.verbs().destroyQueuePair(handle);
      device.events().forget(handle); // it may come to mean another
    }
  }
}
