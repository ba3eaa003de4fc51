package org.nccl4j.transport.net.proxy;

import java.util.Optional;
import java.util.function.Consumer;
import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.Profiler.StepState;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.HotPath;
import org.nccl4j.transport.net.memory.ProxyChannel;

/**
 * Tells Java Flight Recorder and observers of the job of one proxy's steps, from their posting to
 * the network until it is done with them, and profilers of each state. While nobody records and no
 * profiler asks for steps, a step costs a few looks. Owner: the thread that gives the proxy its
 * turns.
 */
public final class StepEvents {
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

    @Label("Zero Copy")
    @Description("Sent from, or received in, the buffer of the operation, not a slot")
    boolean zeroCopy;
  }

  private static final ProxyStep PROBE = new ProxyStep();

  private final EndpointNames ranks;
  private final int connection;
  private final boolean sends;
  private final ProxyChannel channel;

  /** Null where no profiler asks. */
  private final Consumer<Profiler.ProxyStep> profilers;

  /** Steps by slot; null where no recording asked when the step was posted. */
  private final ProxyStep[] underWay;

  /** Received bytes by slot. */
  private final int[] received;

  private final TransportContext.StepTimes times;

  /** Begins of steps by slot, for observers of the job; 0 where none records the step. */
  private final long[] begins;

  /** By slot, of those steps. */
  private final boolean[] zeroCopies;

  /** Steps that profilers know to be filled. */
  private long filled;

  /**
   * The events of a channel of one end.
   *
   * @param connection as profilers number the connections of two ranks
   * @param profilers told of each state
   * @param times for observers of the job
   */
  public StepEvents(
      EndpointNames ranks,
      int connection,
      boolean sends,
      ProxyChannel channel,
      Optional<Consumer<Profiler.ProxyStep>> profilers,
      TransportContext.StepTimes times) {
    this.ranks = ranks;
    this.connection = connection;
    this.sends = sends;
    this.channel = channel;
    this.profilers = profilers.orElse(null);
    this.underWay = new ProxyStep[channel.slots()];
    this.received = new int[channel.slots()];
    this.times = times;
    this.begins = new long[channel.slots()];
    this.zeroCopies = new boolean[channel.slots()];
  }

  /** A sender's kernel has filled all steps before this one. */
  @HotPath
  void filled(long end) {
    if (profilers != null) {
      while (filled < end) {
        tell(filled++, StepState.FILLED);
      }
    }
  }

  /** A step has been posted, in a slot. */
  @HotPath
  void posted(long step) {
    posted(step, false);
  }

  /**
   * A step has been posted.
   *
   * @param zeroCopy whether from the buffer of the operation
   */
  @HotPath
  void posted(long step, boolean zeroCopy) {
    if (PROBE.isEnabled()) {
      begin(step, zeroCopy);
    }
    begins[channel.slot(step)] = times.begin();
    zeroCopies[channel.slot(step)] = zeroCopy;
    if (profilers != null) {
      received[channel.slot(step)] = 0;
      tell(step, StepState.POSTED);
    }
  }

  /**
   * A receiver has a step's data.
   *
   * @param zeroCopy whether in the buffer of the operation
   */
  @HotPath
  void received(long step, int bytes, boolean zeroCopy) {
    received[channel.slot(step)] = bytes;
    if (underWay[channel.slot(step)] != null) {
      underWay[channel.slot(step)].zeroCopy = zeroCopy;
      end(step);
    }
    if (begins[channel.slot(step)] != 0) {
      zeroCopies[channel.slot(step)] = zeroCopy;
      tellTimes(step);
    }
    if (profilers != null) {
      tell(step, StepState.RECEIVED);
    }
  }

  /** The kernel is about to be told of a step. */
  @HotPath
  void done(long step) {
    if (underWay[channel.slot(step)] != null) {
      end(step);
    }
    if (begins[channel.slot(step)] != 0) {
      tellTimes(step);
    }
    if (profilers != null) {
      tell(step, StepState.DONE);
    }
  }

  private void begin(long step, boolean zeroCopy) {
    ProxyStep event = new ProxyStep();
    event.zeroCopy = zeroCopy;
    event.begin();
    underWay[channel.slot(step)] = event;
  }

  private void end(long step) {
    ProxyStep event = underWay[channel.slot(step)];
    underWay[channel.slot(step)] = null;
    event.rank = ranks.self();
    event.peer = ranks.peer();
    event.direction = sends ? "send" : "recv";
    event.step = step;
    event.bytes = bytes(step);
    event.commit();
  }

  private void tellTimes(long step) {
    int slot = channel.slot(step);
    times.ended(
        new TransportContext.EndedStep(ranks.peer(), sends, step, bytes(step), zeroCopies[slot]),
        begins[slot]);
    begins[slot] = 0;
  }

  private void tell(long step, StepState state) {
    profilers.accept(
        new Profiler.ProxyStep(
            ranks.sender(),
            ranks.peer(),
            connection,
            channel.number(),
            sends,
            step,
            bytes(step),
            state));
  }

  private int bytes(long step) {
    return sends ? channel.size(step) : received[channel.slot(step)];
  }
}
