package org.nccl4j.api.observe;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.observe.flight.FlightRecorder;

/**
 * Notice that a rank has closed its communicator, with the number of its operations. A rank that
 * has called more operations with it waits for data that never arrive.
 *
 * @param communicator its number
 * @param rank the one that closed
 * @param nRanks of that communicator
 * @param collectives that the rank has called; {@link #UNCOUNTED} if graphs may have repeated some
 * @param singles its sends and receives by rank; no entry for a rank without any; null if unknown
 */
record Departure(
    long communicator, int rank, int nRanks, long collectives, Map<Integer, Singles> singles) {
  /** First byte of a notice of this kind. */
  static final byte KIND = 2;

  /** Marker in the place of a number of collectives. */
  static final long UNCOUNTED = -1;

  /** So that a notice holds it. */
  private static final int MOST_PEERS = 700;

  private static final Singles NONE = new Singles(0, 0);

  /** Sends to a rank, and receives from it. */
  record Singles(long sends, long receives) {}

  /** Returns the departure of a rank that calls no more operations. */
  static Departure of(FlightRecorder log, FlightRecorder.Rank rank, boolean counted) {
    Map<Integer, Singles> singles = new HashMap<>();
    for (int peer = 0; counted && peer < rank.nRanks(); peer++) {
      Singles with = new Singles(log.singles(true, peer), log.singles(false, peer));
      if (!with.equals(NONE)) {
        singles.put(peer, with);
      }
    }
    return new Departure(
        rank.communicator(),
        rank.rank(),
        rank.nRanks(),
        counted ? log.collectives() : UNCOUNTED,
        counted && singles.size() <= MOST_PEERS ? singles : null);
  }

  /** Sends and receives with a rank; null if they are not known. */
  Singles with(int peer) {
    return singles == null ? null : singles.getOrDefault(peer, NONE);
  }

  byte[] encode() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeByte(KIND);
      out.writeLong(communicator);
      out.writeInt(rank);
      out.writeInt(nRanks);
      out.writeLong(collectives);
      out.writeInt(singles == null ? -1 : singles.size());
      if (singles != null) {
        for (Map.Entry<Integer, Singles> each : singles.entrySet()) {
          out.writeInt(each.getKey());
          out.writeLong(each.getValue().sends);
          out.writeLong(each.getValue().receives);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e); // of memory: there is none
    }
    return bytes.toByteArray();
  }

  /** Empty for a notice of another kind. */
  static Optional<Departure> decode(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      if (in.readByte() != KIND) {
        return Optional.empty();
      }
      long communicator = in.readLong();
      int rank = in.readInt();
      int nRanks = in.readInt();
      long collectives = in.readLong();
      int peers = in.readInt();
      Map<Integer, Singles> singles = peers < 0 ? null : new HashMap<>();
      for (int p = 0; p < peers; p++) {
        singles.put(in.readInt(), new Singles(in.readLong(), in.readLong()));
      }
      return Optional.of(new Departure(communicator, rank, nRanks, collectives, singles));
    } catch (IOException e) {
      return Optional.empty();
    }
  }
}
