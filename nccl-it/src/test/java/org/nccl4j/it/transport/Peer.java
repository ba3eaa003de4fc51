package org.nccl4j.it.transport;

import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;

/** A peer that differs from another in something. */
public record Peer(PeerInfo info) {
  public PeerInfo build() {
    return info;
  }

  Peer onHost(String host) {
    return of(host, info.ipcNamespace(), info.processId(), info.userId());
  }

  Peer inNamespace(String namespace) {
    return of(info.hostId(), namespace, info.processId(), info.userId());
  }

  public Peer inProcess(String process) {
    return of(info.hostId(), info.ipcNamespace(), process, info.userId());
  }

  Peer ofUser(long user) {
    return of(info.hostId(), info.ipcNamespace(), info.processId(), user);
  }

  private Peer of(String host, String namespace, String process, long user) {
    return new Peer(
        new PeerInfo(
            info.rank(), host, namespace, process, user, info.deviceKind(), info.deviceId()));
  }

  public Peer withDevice(Device.Kind kind, String id) {
    return new Peer(
        new PeerInfo(
            info.rank(),
            info.hostId(),
            info.ipcNamespace(),
            info.processId(),
            info.userId(),
            kind,
            id));
  }
}
