package org.nccl4j.transport.net;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * Tells Java Flight Recorder of one proxy's steps, from their posting to the network until it is
 * done with them. While no recording asks for these events by name, a step costs two looks. Owner:
 * the thread that gives the proxy its turns.
 */
final class StepEvents {
  /** A step of a connection between hosts. */
  @Name("org.nccl4j.ProxyStep")
  @Label("Proxy step")
  @Description("A slot of a connection, from when it was posted to the network until it was done")
  @Category("nccl4j")
  @Enabled(false)
  @StackTrace(false)
  static final class ProxyStep extends Event {
    @Label("Rank")
    int rank;

    @Label("Peer")
    int peer;

    @Label("Direction")
    String direction;

    @Label("Step")
    long step;

    @Label("Size")
    @DataAmount
    long bytes;
  }

  private static final ProxyStep PROBE = new ProxyStep();

  private final Ranks ranks;
  private final String direction;
  private final ProxyStep[] underWay = new ProxyStep[ConnectionLayout.STEPS];

  StepEvents(Ranks ranks, String direction) {
    this.ranks = ranks;
    this.direction = direction;
  }

  /** A step has been posted. */
  @HotPath
  void posted(long step) {
    if (PROBE.isEnabled()) {
      begin(step);
    }
  }

  private void begin(long step) {
    ProxyStep event = new ProxyStep();
    event.begin();
    underWay[slot(step)] = event;
  }

  /** The network is done with it. */
  @HotPath
  void done(long step, long bytes) {
    if (underWay[slot(step)] != null) {
      end(step, bytes);
    }
  }

  private void end(long step, long bytes) {
    ProxyStep event = underWay[slot(step)];
    underWay[slot(step)] = null;
    event.rank = ranks.self();
    event.peer = ranks.peer();
    event.direction = direction;
    event.step = step;
    event.bytes = bytes;
    event.commit();
  }

  private static int slot(long step) {
    return (int) step & (ConnectionLayout.STEPS - 1);
  }
}
