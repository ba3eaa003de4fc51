package org.nccl4j.api.observe;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Optional;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;

/**
 * Notice of the collective that a rank has waited in for a while. Ranks of other hosts, which do
 * not read this rank's recorder, compare it with their own call of the same number.
 *
 * @param communicator its number
 * @param rank the one that waits
 * @param collective the call's number among the rank's collectives, from 1
 * @param text the call, for messages; equal calls have equal texts
 */
record CallNotice(long communicator, int rank, long collective, String text) {
  /** First byte of a notice of this kind. */
  static final byte KIND = 3;

  /** The notice of a rank; empty if its oldest operation is not known, or is no collective. */
  static Optional<CallNotice> of(RankReport report) {
    Operation call = report.current();
    return call == null || !call.isCollective() || report.upTo() > call.number()
        ? Optional.empty()
        : Optional.of(
            new CallNotice(report.communicator(), report.rank(), call.collective(), call.text()));
  }

  byte[] encode() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeByte(KIND);
      out.writeLong(communicator);
      out.writeInt(rank);
      out.writeLong(collective);
      out.writeUTF(text);
    } catch (IOException e) {
      throw new UncheckedIOException(e); // of memory: there is none
    }
    return bytes.toByteArray();
  }

  /** Empty for a notice of another kind. */
  static Optional<CallNotice> decode(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      return in.readByte() == KIND
          ? Optional.of(new CallNotice(in.readLong(), in.readInt(), in.readLong(), in.readUTF()))
          : Optional.empty();
    } catch (IOException e) {
      return Optional.empty();
    }
  }
}
