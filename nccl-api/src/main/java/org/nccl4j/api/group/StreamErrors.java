package org.nccl4j.api.group;

import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.operation.Operation;

/** Errors of the streams of a group's operations. */
final class StreamErrors {
  private StreamErrors() {}

  /**
   * Refuses two operations of a rank whose streams are not in the same capture, or both in none.
   *
   * @param where the rank and its device
   */
  static void checkCaptures(
      String where, Operation first, DeviceStream stream, Operation later, DeviceStream another) {
    long capture = stream.captureNumber();
    long other = another.captureNumber();
    if (other != capture) {
      throw ofCaptures(where, first, capture, later, other);
    }
  }

  /**
   * Two operations of a rank are not in the same capture.
   *
   * @param capture number of the first one's, 0 for none; likewise other of the later one's
   */
  private static InvalidUsageException ofCaptures(
      String where, Operation first, long capture, Operation later, long other) {
    return new InvalidUsageException(
        ErrorId.CAPTURE,
        ("in a group of %s the stream of the first %s is %s, and that of a later %s is %s:"
                + " a graph would launch a part of the group without the rest; nothing was"
                + " launched")
            .formatted(
                where,
                first.key(),
                capture == 0 ? "not being captured" : "being captured",
                later.key(),
                other == 0
                    ? "not being captured"
                    : capture == 0 ? "being captured" : "being captured into another graph"),
        "capture all streams of the group into one graph, by letting them await an event of the"
            + " stream whose capture was begun, or none of them; or call the operations in a"
            + " group for each graph");
  }

  /** Two ranks of a communicator have operations in one stream. */
  static InvalidArgumentException ofTwoRanks(
      String communicator, int one, int other, DeviceStream stream) {
    return new InvalidArgumentException(
        ErrorId.STREAM,
        "ranks %d and %d of communicator %s have operations of one group in one stream of %s,"
                .formatted(
                    Math.min(one, other),
                    Math.max(one, other),
                    communicator,
                    stream.device().kind() == Device.Kind.HOST
                        ? "the host device"
                        : "%s (%s)".formatted(stream.device().name(), stream))
            + " where the first would wait for the second forever; nothing was launched",
        "give each rank its own stream");
  }
}
