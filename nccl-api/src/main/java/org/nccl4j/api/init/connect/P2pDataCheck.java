package org.nccl4j.api.init.connect;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.Connection;

/**
 * Tests that data arrive unchanged between the memories of each pair of GPUs: behind an IOMMU that
 * translates PCI traffic, data can be lost without an error. Each rank writes a pattern into the
 * data side of each connection that kernels store into; its receiver compares it, and the writer
 * reads it back.
 */
final class P2pDataCheck {
  private static final int BYTES = 1024;
  private static final String REFUSED = "R";
  private static final String CHANGED = "C";

  /**
   * A pair of ranks' reason against a transport.
   *
   * @param problem as a clause
   * @param refused whether memory could not be opened; else data arrived changed, or not at all
   */
  record Complaint(String problem, boolean refused) {
    static Complaint changed(String problem) {
      return new Complaint(problem, false);
    }

    private String text() {
      return (refused ? REFUSED : CHANGED) + problem.replaceAll("\\R", " ");
    }

    private static Complaint ofPeer(int peer, String text) {
      return text.startsWith(REFUSED)
          ? new Complaint("what rank %d says: %s".formatted(peer, text.substring(1)), true)
          : changed("rank %d read other data than were written".formatted(peer));
    }
  }

  private final Device device;
  private final List<PeerInfo> peers;
  private final int rank;
  private final Bootstrap bootstrap;

  /** A check by one of the ranks. */
  P2pDataCheck(Device device, List<PeerInfo> peers, int rank, Bootstrap bootstrap) {
    this.device = device;
    this.peers = peers;
    this.rank = rank;
    this.bootstrap = bootstrap;
  }

  /**
   * Tries all connections; all ranks take part, before any kernel runs.
   *
   * @param links by which GPUs are connected; the data sides are as empty afterwards as before
   * @return this rank's peers with which it must not go on like this, and what was seen; null if no
   *     pair of ranks at all has anything to complain of
   */
  Map<Integer, Complaint> complaints(ConnectionSetup links) {
    Map<Integer, Complaint> mine = new TreeMap<>();
    links.refused().forEach((peer, e) -> mine.put(peer, new Complaint(e.problem(), true)));
    try (DeviceMemory scratch = device.allocate(BYTES);
        DeviceStream stream = device.createStream()) {
      List<Connection> sends = links.sends();
      List<Connection> recvs = links.recvs();
      for (int peer : links.loadedAndStored(peers)) {
        write(sends.get(peer), peer, scratch, stream, mine);
      }
      bootstrap.barrier();
      for (int peer : links.loadedAndStored(peers)) {
        read(sends.get(peer), recvs.get(peer), peer, scratch, stream, mine);
      }
      return told(mine, links, recvs);
    }
  }

  private void write(
      Connection send,
      int peer,
      DeviceMemory scratch,
      DeviceStream stream,
      Map<Integer, Complaint> mine) {
    try {
      scratch.write(0, pattern(rank, peer));
      stream.copy(scratch, send.data().slice(0, BYTES));
      stream.synchronize();
    } catch (NcclException e) {
      mine.put(
          peer,
          Complaint.changed(
              "writing into the memory of rank %d failed: %s".formatted(peer, e.problem())));
    }
  }

  private void read(
      Connection send,
      Connection recv,
      int peer,
      DeviceMemory scratch,
      DeviceStream stream,
      Map<Integer, Complaint> mine) {
    try {
      if (!holds(recv.data(), pattern(peer, rank))) {
        mine.putIfAbsent(
            peer, Complaint.changed("the data that rank %d wrote arrived changed".formatted(peer)));
      }
      scratch.fill((byte) 0);
      stream.copy(send.data().slice(0, BYTES), scratch);
      stream.synchronize();
      if (!holds(scratch, pattern(rank, peer))) {
        mine.putIfAbsent(
            peer,
            Complaint.changed(
                "the data read from the memory of rank %d differ from its contents"
                    .formatted(peer)));
      }
    } catch (NcclException e) {
      mine.put(
          peer,
          Complaint.changed(
              "reading the memory of rank %d failed: %s".formatted(peer, e.problem())));
    }
  }

  private static boolean holds(DeviceMemory memory, ByteBuffer expected) {
    ByteBuffer seen = ByteBuffer.allocateDirect(BYTES);
    memory.slice(0, BYTES).read(0, seen);
    return seen.flip().equals(expected);
  }

  /** Differs for each pair and direction, and in every word. */
  private static ByteBuffer pattern(int from, int to) {
    ByteBuffer words = ByteBuffer.allocateDirect(BYTES).order(ByteOrder.nativeOrder());
    long seed = 0x9E3779B97F4A7C15L * (1 + ((long) from << 32 | to));
    for (int at = 0; at < BYTES; at += Long.BYTES) {
      words.putLong(at, seed ^ 0xBF58476D1CE4E5B9L * (at + 1));
    }
    return words;
  }

  /** Hears what all have seen, then removes the patterns. */
  private Map<Integer, Complaint> told(
      Map<Integer, Complaint> mine, ConnectionSetup links, List<Connection> recvs) {
    StringBuilder seen = new StringBuilder();
    mine.forEach((peer, of) -> seen.append(peer).append(' ').append(of.text()).append('\n'));
    List<byte[]> all = bootstrap.allGather(seen.toString().getBytes(UTF_8));
    for (int peer : links.loadedAndStored(peers)) {
      if (!mine.containsKey(peer)) {
        recvs.get(peer).data().slice(0, BYTES).fill((byte) 0);
      }
    }
    boolean good = true;
    for (int other = 0; other < all.size(); other++) {
      String said = new String(all.get(other), UTF_8);
      good &= said.isEmpty();
      String ofThis = ofRank(said);
      if (other != rank && !ofThis.isEmpty()) {
        Complaint theirs = Complaint.ofPeer(other, ofThis);
        // A rank that could not open this rank's memory has written nothing that could arrive.
        mine.merge(other, theirs, (own, its) -> its.refused() && !own.refused() ? its : own);
      }
    }
    return good ? null : mine;
  }

  /** The complaint of another rank about this one; empty if it has none. */
  private String ofRank(String said) {
    String begin = rank + " ";
    return said.lines()
        .filter(line -> line.startsWith(begin))
        .map(line -> line.substring(begin.length()))
        .findFirst()
        .orElse("");
  }
}
