package org.nccl4j.transport.net.failover;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/** A path of a network that has taken over from another, for Java Flight Recorder. */
@Name("org.nccl4j.NetFailover")
@Label("Network failover")
@Description("A socket, or queue pairs of InfiniBand or RoCE, have taken over from others")
@Category("nccl4j")
@StackTrace(false)
public final class Failover extends Event {
  @Label("Network")
  String network;

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

  /** Records that a path has taken over; the network is named as in NCCL_NET. */
  public static void commit(
      String network, String before, String after, String reason, long again, long nanos) {
    Failover event = new Failover();
    event.network = network;
    event.before = before;
    event.after = after;
    event.reason = reason;
    event.again = again;
    event.nanos = nanos;
    event.commit();
  }
}
