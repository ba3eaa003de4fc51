package org.nccl4j.api.bootstrap;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * An all-gather that is part of a collective call of the user. Each rank's part begins with the
 * call's name, so that different calls are an error and their parts are not mistaken for each
 * other.
 */
public final class CheckedAllGather {
  private CheckedAllGather() {}

  /**
   * Exchanges as {@link Bootstrap#allGather} does, and checks that all ranks are in the same call.
   *
   * @param communicator its name, for the error
   * @param call at most 127 characters of ASCII
   * @throws InvalidUsageException on all ranks if one is in another call
   */
  public static List<byte[]> allGather(
      Bootstrap bootstrap, String communicator, String call, byte[] mine) {
    byte[] name = call.getBytes(StandardCharsets.US_ASCII);
    byte[] named = new byte[1 + name.length + mine.length];
    named[0] = (byte) name.length;
    System.arraycopy(name, 0, named, 1, name.length);
    System.arraycopy(mine, 0, named, 1 + name.length, mine.length);
    List<byte[]> parts = new ArrayList<>();
    String first = null;
    for (byte[] other : bootstrap.allGather(named)) {
      String theirs = new String(other, 1, other[0], StandardCharsets.US_ASCII);
      first = first == null ? theirs : first;
      if (!theirs.equals(first)) {
        throw new InvalidUsageException(
            ErrorId.CALLS_DIFFER,
            "in communicator %s rank 0 calls %s and rank %d calls %s"
                .formatted(communicator, first, parts.size(), theirs),
            "make the same calls in the same order on all ranks");
      }
      parts.add(Arrays.copyOfRange(other, 1 + other[0], other.length));
    }
    return parts;
  }
}
