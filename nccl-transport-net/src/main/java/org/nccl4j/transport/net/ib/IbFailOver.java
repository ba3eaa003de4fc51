package org.nccl4j.transport.net.ib;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/** Queue pairs that have taken over from others, for Java Flight Recorder. */
@Name("org.nccl4j.InfiniBandFailOver")
@Label("InfiniBand fail-over")
@Description("Queue pairs have taken over from those of a broken path")
@Category("nccl4j")
@StackTrace(false)
final class IbFailOver extends Event {
  @Label("Path that was left")
  String before;

  @Label("New path")
  String after;

  @Label("Reason")
  String reason;

  @Label("Bytes sent again")
  @DataAmount
  long again;

  @Label("Time without a path")
  @Timespan(Timespan.NANOSECONDS)
  long nanos;

  static void commit(String before, String after, String reason, long again, long nanos) {
    IbFailOver event = new IbFailOver();
    event.before = before;
    event.after = after;
    event.reason = reason;
    event.again = again;
    event.nanos = nanos;
    event.commit();
  }
}
