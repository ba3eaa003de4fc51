package org.nccl4j.api.observe.flight;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.Links;
import org.nccl4j.api.observe.flight.RankReport.Operation;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Replays;
import org.nccl4j.api.observe.flight.RankReport.Run;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.spi.Failovers;

/**
 * The state of one rank as it travels to an observer of the job: the reports of its communicators,
 * each with the operations that it is in, its last one, and its newest runs.
 *
 * <p>As bytes: the number of communicators (4), then for each the fields of its {@link RankReport}
 * but process and front, in their order. All ranks and observers have one version.
 */
public final class StateMessage {
  /** No message is longer; communicators for which there is no room are left out. */
  static final int MAX_BYTES = 48 << 10;

  /** Runs of a communicator that travel. */
  static final int RUNS = 8;

  private StateMessage() {}

  public static byte[] encode(List<RankReport> reports) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    int count = 0;
    for (RankReport report : reports) {
      byte[] one = encode(report);
      if (Integer.BYTES + bytes.size() + one.length <= MAX_BYTES) {
        bytes.writeBytes(one);
        count++;
      }
    }
    byte[] all = bytes.toByteArray();
    return ByteBuffer.allocate(Integer.BYTES + all.length).putInt(count).put(all).array();
  }

  private static byte[] encode(RankReport report) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeLong(report.communicator());
      out.writeUTF(report.name());
      out.writeInt(report.rank());
      out.writeInt(report.nRanks());
      out.writeLong(report.launched());
      out.writeLong(report.ended());
      out.writeLong(report.upTo());
      out.writeInt(report.waitsFor());
      out.writeLong(report.stillMillis());
      out.writeLong(report.observedMillis());
      out.writeBoolean(report.failed());
      List<Operation> operations =
          Stream.of(report.current(), report.currentAtMost(), report.last())
              .filter(Objects::nonNull)
              .distinct()
              .toList();
      out.writeInt(operations.size());
      for (Operation operation : operations) {
        out.writeLong(operation.number());
        out.writeLong(operation.collective());
        out.writeUTF(operation.label());
        out.writeInt(operation.root());
        out.writeLong(operation.count());
        out.writeLong(operation.bytes());
        out.writeUTF(operation.text());
      }
      List<Run> runs = report.runs();
      runs = runs.subList(Math.max(0, runs.size() - RUNS), runs.size());
      out.writeInt(runs.size());
      for (Run run : runs) {
        out.writeUTF(run.label());
        out.writeLong(run.bytes());
        out.writeLong(run.first());
        out.writeLong(run.last());
      }
      write(report.links(), out);
      out.writeUTF(report.device());
      out.writeLong(report.replays().operations());
      out.writeLong(report.replays().bytes());
      out.writeLong(report.replays().busBytes());
    } catch (IOException e) {
      throw new UncheckedIOException(e); // of memory: there is none
    }
    return bytes.toByteArray();
  }

  private static void write(Links links, DataOutputStream out) throws IOException {
    out.writeInt(links.traffic().size());
    for (Traffic each : links.traffic()) {
      out.writeInt(each.peer());
      out.writeUTF(each.transport());
      out.writeUTF(each.via());
      out.writeLong(each.bytes());
      out.writeLong(each.received());
      out.writeLong(each.underWayMillis());
      out.writeLong(each.stalledMillis());
      out.writeLong(each.recent().millis());
      out.writeLong(each.recent().bytes());
      out.writeLong(each.recent().underWayMillis());
      out.writeLong(each.recent().stalledMillis());
      out.writeLong(each.recent().received());
      out.writeLong(each.recent().roomMillis());
    }
    out.writeInt(links.failovers().size());
    for (Failover each : links.failovers()) {
      out.writeInt(each.peer());
      out.writeLong(each.what().count());
      out.writeLong(each.what().lastMillis());
      out.writeLong(each.what().bytesAgain());
      out.writeUTF(each.what().path());
    }
  }

  /**
   * The reports in a message; empty bytes are a rank without a communicator.
   *
   * @throws IOException if it is damaged
   */
  public static List<RankReport> decode(byte[] bytes, ProcessReport process) throws IOException {
    List<RankReport> reports = new ArrayList<>();
    if (bytes.length > 0) {
      try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
        for (int left = in.readInt(); left > 0; left--) {
          reports.add(report(in, process));
        }
      }
    }
    return reports;
  }

  private static RankReport report(DataInputStream in, ProcessReport process) throws IOException {
    return new RankReport(
        process,
        in.readLong(),
        in.readUTF(),
        in.readInt(),
        in.readInt(),
        in.readLong(),
        in.readLong(),
        in.readLong(),
        in.readInt(),
        in.readLong(),
        in.readLong(),
        in.readBoolean(),
        new RankReport.Front(0, 0, 0, 0),
        operations(in),
        runs(in),
        new Links(traffic(in), failovers(in)),
        in.readUTF(),
        new Replays(in.readLong(), in.readLong(), in.readLong()));
  }

  private static List<Traffic> traffic(DataInputStream in) throws IOException {
    List<Traffic> all = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      all.add(
          new Traffic(
              in.readInt(),
              in.readUTF(),
              in.readUTF(),
              in.readLong(),
              in.readLong(),
              in.readLong(),
              in.readLong(),
              recent(in)));
    }
    return all;
  }

  private static Recent recent(DataInputStream in) throws IOException {
    return new Recent(
        in.readLong(), in.readLong(), in.readLong(), in.readLong(), in.readLong(), in.readLong());
  }

  private static List<Failover> failovers(DataInputStream in) throws IOException {
    List<Failover> all = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      all.add(
          new Failover(
              in.readInt(),
              new Failovers(in.readLong(), in.readLong(), in.readLong(), in.readUTF())));
    }
    return all;
  }

  private static List<Run> runs(DataInputStream in) throws IOException {
    List<Run> runs = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      runs.add(new Run(in.readUTF(), in.readLong(), in.readLong(), in.readLong()));
    }
    return runs;
  }

  private static List<Operation> operations(DataInputStream in) throws IOException {
    List<Operation> operations = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      operations.add(
          new Operation(
              in.readLong(),
              in.readLong(),
              in.readUTF(),
              in.readInt(),
              in.readLong(),
              in.readLong(),
              in.readUTF()));
    }
    return operations;
  }
}
