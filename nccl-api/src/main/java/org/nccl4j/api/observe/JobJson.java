package org.nccl4j.api.observe;

import java.util.List;
import java.util.Locale;
import org.nccl4j.api.observe.JobReport.CommunicatorState;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.Recent;
import org.nccl4j.api.observe.flight.RankReport.Traffic;

/** Writes the state of a job as JSON. nccl-api needs no library, so it has this writer. */
public final class JobJson {
  private static final int CONTROL = 0x20;

  private final StringBuilder text = new StringBuilder();

  /** True if the next field or element has one before it. */
  private boolean further;

  private JobJson() {}

  /** The state of a job in one line. */
  public static String of(JobReport job) {
    JobJson json = new JobJson();
    json.write(job);
    return json.text.toString();
  }

  private void write(JobReport job) {
    begin('{');
    field("healthy").append(job.isHealthy());
    field("formed").append(job.formed());
    field("nRanks").append(job.nRanks());
    list("ranks", job.ranks(), this::write);
    list("gone", job.gone(), text::append);
    list("communicators", job.communicators(), this::write);
    list("unreachedRoots", job.unreached(), this::write);
    end('}');
  }

  private void write(JobReport.UnreachedRoot root) {
    begin('{');
    string("root", root.where());
    string("reason", root.reason());
    end('}');
  }

  private void write(JobReport.Rank rank) {
    begin('{');
    field("rank").append(rank.rank());
    string("host", rank.process().host());
    field("pid").append(rank.process().pid());
    field("silent").append(rank.silent());
    end('}');
  }

  private void write(CommunicatorState state) {
    begin('{');
    string("name", state.ranks().get(0).name());
    string("diagnosis", state.sentence());
    list("behind", state.behind(), this::write);
    list("slowLinks", state.speeds().slow(), this::write);
    list("ranks", state.ranks(), this::write);
    end('}');
  }

  private void write(LinkSpeeds.Slow slow) {
    begin('{');
    field("rank").append(slow.speed().rank());
    field("peer").append(slow.speed().link().peer());
    string("link", slow.speed().link().way());
    field("stalled").append(slow.isStalled());
    field("bytesPerSecond").append(Math.round(slow.speed().bytesPerSecond()));
    field("median").append(Math.round(slow.median()));
    field("links").append(slow.links());
    end('}');
  }

  private void write(JobReport.Behind behind) {
    begin('{');
    field("rank").append(behind.report().rank());
    field("collectives").append(behind.collectives());
    end('}');
  }

  private void write(RankReport rank) {
    begin('{');
    field("rank").append(rank.rank());
    field("launched").append(rank.launched());
    field("ended").append(rank.ended());
    field("waitsFor").append(rank.waitsFor());
    field("stillMillis").append(rank.stillMillis());
    field("failed").append(rank.failed());
    string("device", rank.device());
    if (rank.current() != null) {
      string("operation", rank.current().text());
      field("bytes").append(rank.current().bytes());
    }
    list("links", rank.links().traffic(), this::write);
    list("failovers", rank.links().failovers(), this::write);
    end('}');
  }

  private void write(Traffic link) {
    begin('{');
    field("peer").append(link.peer());
    string("transport", link.transport());
    string("via", link.via());
    field("bytes").append(link.bytes());
    field("received").append(link.received());
    field("underWayMillis").append(link.underWayMillis());
    field("stalledMillis").append(link.stalledMillis());
    field("recent");
    write(link.recent());
    end('}');
  }

  private void write(Recent recent) {
    begin('{');
    field("millis").append(recent.millis());
    field("bytes").append(recent.bytes());
    field("underWayMillis").append(recent.underWayMillis());
    field("stalledMillis").append(recent.stalledMillis());
    field("received").append(recent.received());
    field("roomMillis").append(recent.roomMillis());
    end('}');
  }

  private void write(Failover each) {
    begin('{');
    field("peer").append(each.peer());
    field("count").append(each.what().count());
    field("lastMillis").append(each.what().lastMillis());
    field("bytesAgain").append(each.what().bytesAgain());
    string("path", each.what().path());
    end('}');
  }

  /** Writes one element of a list. */
  private interface Element<T> {
    void write(T one);
  }

  private <T> void list(String name, List<T> all, Element<T> element) {
    field(name);
    begin('[');
    for (T one : all) {
      separate();
      element.write(one);
      further = true;
    }
    end(']');
  }

  private void separate() {
    if (further) {
      text.append(',');
    }
    further = true;
  }

  private void begin(char bracket) {
    text.append(bracket);
    further = false;
  }

  private void end(char bracket) {
    text.append(bracket);
    further = true;
  }

  private StringBuilder field(String name) {
    separate();
    return text.append('"').append(name).append("\":");
  }

  private void string(String name, String value) {
    field(name).append('"');
    for (int at = 0; at < value.length(); at++) {
      char letter = value.charAt(at);
      if (letter == '"' || letter == '\\') {
        text.append('\\').append(letter);
      } else if (letter < CONTROL) {
        text.append(String.format(Locale.ROOT, "\\u%04x", (int) letter));
      } else {
        text.append(letter);
      }
    }
    text.append('"');
  }
}
