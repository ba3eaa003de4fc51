package org.nccl4j.it.doctor;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.stream.Collectors;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.RankReport;
import org.nccl4j.api.observe.TakeOverLines;

/** Prints the state of a job for people or as JSON. */
final class JobPrinter {
  private static final int SHOWN = 8;

  private final JobReport job;

  JobPrinter(JobReport job) {
    this.job = job;
  }

  void print(PrintWriter out) {
    List<JobReport.Rank> silent = job.silent();
    out.printf(
        "job of %d ranks: %d answered, in %d processes on %d hosts%n",
        job.nRanks(),
        job.ranks().size() - silent.size(),
        job.ranks().stream().map(JobReport.Rank::process).distinct().count(),
        job.ranks().stream().map(rank -> rank.process().host()).distinct().count());
    if (!job.formed()) {
      out.println("the communicator is being created; not there yet: " + numbers(job.gone()));
    } else if (!job.gone().isEmpty()) {
      out.println("left, or connected to a root that was not asked: " + numbers(job.gone()));
    }
    if (!silent.isEmpty()) {
      out.println("silent: " + list(silent.stream().map(JobPrinter::text).toList()));
    }
    for (JobReport.CommunicatorState each : job.communicators()) {
      out.println(each.sentence());
      if (each.operation() != null) {
        out.printf(
            "  %d of %d ranks that answered are in operation %d, %s%n",
            each.inOperation(),
            each.ranks().size(),
            each.operation().number(),
            each.operation().text());
      }
      TakeOverLines.of(each.ranks()).text(System.currentTimeMillis()).forEach(out::println);
      if (!each.behind().isEmpty()) {
        out.println("  behind: " + list(each.behind().stream().map(JobPrinter::text).toList()));
      }
    }
    if (job.isHealthy()) {
      out.println("no rank is silent, behind or has failed");
    }
    out.flush();
  }

  private static String text(JobReport.Rank rank) {
    return "rank %d (%s)".formatted(rank.rank(), rank.process());
  }

  private static String text(JobReport.Behind behind) {
    return "rank %d by %d collective%s (%s)"
        .formatted(
            behind.report().rank(),
            behind.collectives(),
            behind.collectives() == 1 ? "" : "s",
            behind.report().process());
  }

  private static String numbers(List<Integer> ranks) {
    return ranks.isEmpty()
        ? "some ranks"
        : list(ranks.stream().map(rank -> "rank " + rank).toList());
  }

  private static String list(List<String> all) {
    return all.stream().limit(SHOWN).collect(Collectors.joining(", "))
        + (all.size() > SHOWN ? " and %d more".formatted(all.size() - SHOWN) : "");
  }

  String json() {
    StringWriter text = new StringWriter();
    try (JsonGenerator out = new JsonFactory().createGenerator(text)) {
      out.useDefaultPrettyPrinter();
      out.writeStartObject();
      out.writeBooleanField("healthy", job.isHealthy());
      out.writeBooleanField("formed", job.formed());
      out.writeNumberField("nRanks", job.nRanks());
      out.writeArrayFieldStart("ranks");
      for (JobReport.Rank rank : job.ranks()) {
        out.writeStartObject();
        out.writeNumberField("rank", rank.rank());
        out.writeStringField("host", rank.process().host());
        out.writeNumberField("pid", rank.process().pid());
        out.writeBooleanField("silent", rank.silent());
        out.writeEndObject();
      }
      out.writeEndArray();
      out.writeArrayFieldStart("gone");
      for (int rank : job.gone()) {
        out.writeNumber(rank);
      }
      out.writeEndArray();
      out.writeArrayFieldStart("communicators");
      for (JobReport.CommunicatorState each : job.communicators()) {
        write(each, out);
      }
      out.writeEndArray();
      out.writeEndObject();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return text.toString();
  }

  private static void write(JobReport.CommunicatorState state, JsonGenerator out)
      throws IOException {
    out.writeStartObject();
    out.writeStringField("name", state.ranks().get(0).name());
    out.writeStringField("diagnosis", state.sentence());
    out.writeArrayFieldStart("behind");
    for (JobReport.Behind behind : state.behind()) {
      out.writeStartObject();
      out.writeNumberField("rank", behind.report().rank());
      out.writeNumberField("collectives", behind.collectives());
      out.writeEndObject();
    }
    out.writeEndArray();
    out.writeArrayFieldStart("ranks");
    for (RankReport rank : state.ranks()) {
      out.writeStartObject();
      out.writeNumberField("rank", rank.rank());
      out.writeNumberField("launched", rank.launched());
      out.writeNumberField("ended", rank.ended());
      out.writeNumberField("waitsFor", rank.waitsFor());
      out.writeNumberField("stillMillis", rank.stillMillis());
      out.writeBooleanField("failed", rank.failed());
      out.writeArrayFieldStart("takeOvers");
      for (RankReport.TakeOver each : rank.links().takeOvers()) {
        out.writeStartObject();
        out.writeNumberField("peer", each.peer());
        out.writeNumberField("count", each.what().count());
        out.writeNumberField("lastMillis", each.what().lastMillis());
        out.writeNumberField("bytesAgain", each.what().bytesAgain());
        out.writeStringField("path", each.what().path());
        out.writeEndObject();
      }
      out.writeEndArray();
      if (rank.current() != null) {
        out.writeStringField("operation", rank.current().text());
        out.writeNumberField("bytes", rank.current().bytes());
      }
      out.writeEndObject();
    }
    out.writeEndArray();
    out.writeEndObject();
  }
}
