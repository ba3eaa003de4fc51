package org.nccl4j.it.api;

import java.util.Collections;
import java.util.List;
import jdk.jfr.FlightRecorder;
import jdk.jfr.RecordingState;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** A program that calls operations until it has been recorded for a while, and ends then. */
public final class EndingRank {
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  private EndingRank() {}

  /**
   * Prints "ready" once a communicator is there.
   *
   * @param arguments seconds to call operations once the recording runs; the observer of a
   *     communicator looks 20 times a second whether operations are recorded
   */
  public static void main(String[] arguments) {
    long recordedNanos = Long.parseLong(arguments[0]) * 1_000_000_000L;
    List<Communicator> ranks = Communicator.initAll(Collections.nCopies(2, Devices.host()));
    try (DeviceStream first = Devices.host().createStream();
        DeviceStream second = Devices.host().createStream();
        DeviceMemory a = Devices.host().allocate(32);
        DeviceMemory b = Devices.host().allocate(32)) {
      System.out.println("ready");
      long begin = System.nanoTime();
      long end = begin + PATIENCE_NANOS;
      for (boolean recorded = false; System.nanoTime() - end < 0; ) {
        if (!recorded && isRecorded()) {
          recorded = true;
          end = System.nanoTime() + recordedNanos;
        }
        Group.start();
        ranks.get(0).allReduce(a, a, 8, DataType.FLOAT32, RedOp.MAX, first);
        ranks.get(1).allReduce(b, b, 8, DataType.FLOAT32, RedOp.MAX, second);
        Group.end();
        first.synchronize();
        second.synchronize();
      }
      ranks.forEach(Communicator::close);
    }
  }

  private static boolean isRecorded() {
    return FlightRecorder.isInitialized()
        && FlightRecorder.getFlightRecorder().getRecordings().stream()
            .anyMatch(recording -> recording.getState() == RecordingState.RUNNING);
  }
}
