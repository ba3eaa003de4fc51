package org.nccl4j.api.observe;

import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Period;
import jdk.jfr.Recording;
import jdk.jfr.RecordingState;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/**
 * The events for Java Flight Recorder. They cost operations nothing, except for {@link Operation},
 * which a recording must enable: the observer reads the progress a few times a second.
 */
final class Events {
  private static volatile boolean registered;

  private Events() {}

  /**
   * True once there has been a recording. Before that no event may be made: the first has Java
   * Flight Recorder read the descriptions of all its events, which takes a good part of the time in
   * which a communicator is made; and a class of events that is first used while the first
   * recording starts is never enabled in it.
   */
  static boolean areRecorded() {
    return registered || FlightRecorder.isInitialized() && register();
  }

  /** Registers all events once a recording runs: the recorder answers when it has started. */
  private static synchronized boolean register() {
    for (Recording each : FlightRecorder.getFlightRecorder().getRecordings()) {
      if (!registered && each.getState() == RecordingState.RUNNING) {
        for (Class<?> event : Events.class.getDeclaredClasses()) {
          FlightRecorder.register(event.asSubclass(Event.class));
        }
        registered = true;
      }
    }
    return registered;
  }

  /** The end of a chunk. There are no such events, only calls. */
  @Name("org.nccl4j.ChunkEnd")
  @Label("End of a chunk")
  @Description("Has nccl4j write the operations that have ended; there are no such events")
  @Category("nccl4j")
  @Period("endChunk")
  @StackTrace(false)
  static final class ChunkEnd extends Event {}

  /** A phase of a communicator's creation. */
  @Name("org.nccl4j.InitPhase")
  @Label("Communicator creation")
  @Category("nccl4j")
  @StackTrace(false)
  static final class InitPhase extends Event {
    @Label("Communicator")
    String communicator;

    @Label("Rank")
    int rank;

    @Label("Phase")
    String phase;
  }

  /** An operation, from its launch until its stream has ended it. */
  @Name("org.nccl4j.Operation")
  @Label("Operation")
  @Description("A collective, send, receive or one-sided operation, with its wait in the stream")
  @Category("nccl4j")
  @Enabled(false)
  @StackTrace(false)
  static final class Operation extends Event {
    @Label("Communicator")
    String communicator;

    @Label("Rank")
    int rank;

    @Label("Operation")
    String operation;

    @Label("Element type")
    String type;

    @Label("Size")
    @DataAmount
    long bytes;

    @Label("Root or peer")
    int root;

    @Label("Communicator's number")
    @Description("The same on all its ranks")
    long communicatorId;

    @Label("Number of the collective")
    @Description("Among the communicator's collectives, from 1; the same on all ranks")
    long number;

    @Label("Launch")
    @Description("Time from the begin of the launch to the begin of this event")
    @Timespan(Timespan.NANOSECONDS)
    long launchNanos;

    @Label("Wait")
    @Description(
        "Time from the begin of this event to the end of the rank's operation before, where that"
            + " has no event; -1 if it is unknown")
    @Timespan(Timespan.NANOSECONDS)
    long waitNanos;

    @Label("Run")
    @Description(
        "Time from the begin of this event to the end of the operation; the event itself ends up to"
            + " some milliseconds later on a GPU, when that is noticed")
    @Timespan(Timespan.NANOSECONDS)
    long runNanos;

    @Label("One of")
    @Description("So many operations of the rank were launched for each that was recorded")
    long every;

    @Label("Process")
    long pid;

    @Label("Host")
    String host;
  }

  /** A communicator's work since the last event. */
  @Name("org.nccl4j.Progress")
  @Label("Communicator progress")
  @Description("Operations of a communicator in the last second, where there were any")
  @Category("nccl4j")
  @StackTrace(false)
  static final class Progress extends Event {
    @Label("Communicator")
    String communicator;

    @Label("Rank")
    int rank;

    @Label("Operations launched")
    long launched;

    @Label("Operations ended")
    long ended;

    @Label("Last operation")
    String operation;

    @Label("Its size")
    @DataAmount
    long bytes;
  }

  /** An operation that has not ended for a second or more. */
  @Name("org.nccl4j.Stall")
  @Label("Operation without progress")
  @Category("nccl4j")
  @StackTrace(false)
  static final class Stall extends Event {
    @Label("Communicator")
    String communicator;

    @Label("Rank")
    int rank;

    @Label("Communicator's number")
    long communicatorId;

    @Label("Operation")
    String operation;

    @Label("Rank that is waited for")
    int waitsFor;

    @Label("Since")
    @Timespan(Timespan.MILLISECONDS)
    long millis;
  }

  /** The first failure of a communicator. */
  @Name("org.nccl4j.Failure")
  @Label("Communicator failure")
  @Category("nccl4j")
  @StackTrace(false)
  static final class Failure extends Event {
    @Label("Communicator")
    String communicator;

    @Label("Rank")
    int rank;

    @Label("Communicator's number")
    long communicatorId;

    @Label("Code")
    String code;

    @Label("Message")
    String message;
  }
}
