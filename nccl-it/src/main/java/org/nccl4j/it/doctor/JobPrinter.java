package org.nccl4j.it.doctor;

import java.io.PrintWriter;
import java.util.List;
import java.util.stream.Collectors;
import org.nccl4j.api.observe.FailoverLines;
import org.nccl4j.api.observe.JobReport;

/** Prints the state of a job for people. */
final class JobPrinter {
  private static final int SHOWN = 8;

  private final JobReport job;

  JobPrinter(JobReport job) {
    this.job = job;
  }

  void print(PrintWriter out) {
    List<JobReport.Rank> silent = job.silent();
    out.printf(
        "job of %s: %d answered, in %s on %s%n",
        count(job.nRanks(), "rank", "s"),
        job.ranks().size() - silent.size(),
        count(
            job.ranks().stream().map(JobReport.Rank::process).distinct().count(), "process", "es"),
        count(
            job.ranks().stream().map(rank -> rank.process().host()).distinct().count(),
            "host",
            "s"));
    job.unreached()
        .forEach(
            root -> out.printf("no answer of the root at %s: %s%n", root.where(), root.reason()));
    if (!job.formed()) {
      out.println("the communicator is being created; not joined yet: " + numbers(job.gone()));
    } else if (!job.gone().isEmpty()) {
      out.println(
          "left, or connected to a root that was not queried or gave no answer: "
              + numbers(job.gone()));
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
      FailoverLines.of(each.ranks()).text(System.currentTimeMillis()).forEach(out::println);
      each.speeds().text().forEach(out::println);
      if (!each.behind().isEmpty()) {
        out.println("  behind: " + list(each.behind().stream().map(JobPrinter::text).toList()));
      }
    }
    if (job.isHealthy()) {
      out.println("no rank is silent, behind or has failed");
    }
    out.flush();
  }

  private static String count(long number, String thing, String plural) {
    return number + " " + thing + (number == 1 ? "" : plural);
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
}
