package org.nccl4j.it.perf;

import java.io.PrintWriter;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.it.perf.rank.RegistrationMode;
import org.nccl4j.it.perf.rank.Reply;
import org.nccl4j.it.perf.report.Machine;
import org.nccl4j.it.perf.workload.Workload;

/** The lines above a workload's table, as nccl-tests prints them. */
final class TableHeader {
  private final PerfSettings settings;
  private final String version;
  private final Machine machine;
  private final PrintWriter out;

  TableHeader(PerfSettings settings, String version, Machine machine, PrintWriter out) {
    this.settings = settings;
    this.version = version;
    this.machine = machine;
    this.out = out;
  }

  void print(Workload workload, List<Reply.Joined> ranks) {
    PerfSettings.Who who = settings.ranks();
    PerfSettings.How how = settings.how();
    SizeRange sizes = settings.what().sizes();
    out.printf("# nccl4j %s, Java %s, %d cores%n", version, Runtime.version(), machine.cores());
    out.printf("# Collective test starting: %s%n", workload.label());
    out.printf(
        "# %s %d minBytes %d maxBytes %d step: %s warmup iters: %s iters: %s agg iters: %d"
            + " validation: %d graph: %d%n",
        who.processes() ? "nProcess" : "nThread",
        who.count(),
        sizes.min(),
        sizes.max(),
        sizes,
        how.warmup().isPresent() ? how.warmup().getAsInt() : "auto",
        how.iterations().isPresent() ? how.iterations().getAsInt() : "auto",
        how.aggregate(),
        how.checks(),
        how.graph());
    if (how.blocking()) {
      out.println("# Blocking: waits for each iteration and for all ranks");
    }
    if (who.registration() != RegistrationMode.NOT) {
      out.println(
          "# Buffers are registered "
              + (who.registration() == RegistrationMode.WINDOWS ? "as windows" : "by each rank"));
    }
    if (settings.outputs().comparison().with() == Comparison.With.LIBNCCL) {
      out.println("# " + libnccl(who.registration()));
    }
    if (ranks.stream().allMatch(Reply.Joined::bound)) {
      out.println("# Each rank is bound to a core");
    }
    out.println("#");
    out.println("# Using devices");
    boolean cuda = who.kind() == Device.Kind.CUDA;
    int rank = 0;
    for (Reply.Joined joined : ranks) {
      for (String device : joined.devices()) {
        out.printf(
            "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s%n",
            rank, 0, joined.pid(), machine.host(), cuda ? rank : 0, cuda ? "cuda" : "host", device);
        rank++;
      }
    }
    out.flush();
  }

  private static String libnccl(RegistrationMode ours) {
    String best = ": the better of plain ones and of symmetric windows counts for each size";
    return ours == RegistrationMode.NOT
        ? "libnccl works on the same buffers, which ncclMemAlloc made" + best
        : "libnccl uses its own buffers, from ncclMemAlloc" + best;
  }
}
