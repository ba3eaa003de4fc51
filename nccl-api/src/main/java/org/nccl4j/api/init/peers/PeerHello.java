package org.nccl4j.api.init.peers;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreDomain;

/**
 * A rank's first message to all other ranks.
 *
 * @param peer its identity
 * @param cores that it may use
 * @param transports names of the transports it may use, best first
 * @param meetingPoint its address for later calls; see {@link
 *     org.nccl4j.api.bootstrap.Bootstrap#meetingPoint}
 * @param mnnvl whether it wants multi-node NVLink; see {@link Cliques#wish}
 * @param chance a number drawn for this communicator
 */
record PeerHello(
    PeerInfo peer,
    AllowedCores cores,
    List<String> transports,
    byte[] meetingPoint,
    int mnnvl,
    long chance) {
  byte[] toBytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeInt(peer.rank());
      out.writeUTF(peer.hostId());
      out.writeUTF(peer.ipcNamespace());
      out.writeUTF(peer.processId());
      out.writeLong(peer.userId());
      out.writeUTF(peer.deviceKind().name());
      out.writeUTF(peer.deviceId());
      out.writeInt(peer.nets().size());
      for (String net : peer.nets()) {
        out.writeUTF(net);
      }
      out.writeInt(cores.most());
      out.writeUTF(cores.list());
      out.writeInt(cores.domain().node());
      out.writeInt(cores.domain().cache());
      out.writeInt(transports.size());
      for (String transport : transports) {
        out.writeUTF(transport);
      }
      out.writeInt(meetingPoint.length);
      out.write(meetingPoint);
      out.writeInt(mnnvl);
      out.writeLong(chance);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  static PeerHello fromBytes(int rank, byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      PeerInfo peer =
          new PeerInfo(
              in.readInt(),
              in.readUTF(),
              in.readUTF(),
              in.readUTF(),
              in.readLong(),
              Device.Kind.valueOf(in.readUTF()),
              in.readUTF(),
              names(in));
      return new PeerHello(
          peer,
          new AllowedCores(in.readInt(), in.readUTF(), new CoreDomain(in.readInt(), in.readInt())),
          names(in),
          in.readNBytes(in.readInt()),
          in.readInt(),
          in.readLong());
    } catch (IOException | IllegalArgumentException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "rank %d sent an introduction that this rank cannot read (%s)".formatted(rank, e),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  private static List<String> names(DataInputStream in) throws IOException {
    List<String> names = new ArrayList<>();
    int count = in.readInt();
    for (int n = 0; n < count; n++) {
      names.add(in.readUTF());
    }
    return List.copyOf(names);
  }
}
