package org.nccl4j.transport.net.socket.link;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/** A socket that has taken over from a broken one, for Java Flight Recorder. */
@Name("org.nccl4j.SocketFailOver")
@Label("Socket fail-over")
@Description("A socket has taken over from one that broke")
@Category("nccl4j")
@StackTrace(false)
final class FailOver extends Event {
  @Label("Broken socket")
  String before;

  @Label("New socket")
  String after;

  @Label("Reason")
  String reason;

  @Label("Bytes sent again")
  @DataAmount
  long again;

  @Label("Time without a socket")
  @Timespan(Timespan.NANOSECONDS)
  long nanos;

  static void commit(String before, String after, String reason, long again, long nanos) {
    FailOver event = new FailOver();
    event.before = before;
    event.after = after;
    event.reason = reason;
    event.again = again;
    event.nanos = nanos;
    event.commit();
  }
}
