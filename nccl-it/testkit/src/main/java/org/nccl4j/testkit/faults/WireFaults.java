package org.nccl4j.testkit.faults;

import java.time.Duration;

/**
 * The faults of a {@link FaultyWire} in the bytes of a connection, counted for each direction;
 * {@link NetFaults#NEVER} is never.
 *
 * @param seed of the pieces' lengths
 * @param piece most bytes that are passed on at once, so that reads are short; 0 for all there are
 * @param stallsEvery after so many bytes, again and again, nothing is passed on for a while
 * @param stall how long that is
 * @param stopsAfter from this byte on nothing is passed on, without a word
 * @param resetsAfter at this byte the connection is reset
 * @param flipsAt the lowest bit of this byte is flipped
 */
public record WireFaults(
    long seed,
    int piece,
    long stallsEvery,
    Duration stall,
    long stopsAfter,
    long resetsAfter,
    long flipsAt) {
  /** Passes everything on as it comes. */
  public static WireFaults none() {
    return pieces(0, 0);
  }

  /** Cuts everything into pieces of random length. */
  public static WireFaults pieces(long seed, int most) {
    return new WireFaults(
        seed,
        most,
        NetFaults.NEVER,
        Duration.ZERO,
        NetFaults.NEVER,
        NetFaults.NEVER,
        NetFaults.NEVER);
  }

  /** Stalls for a while, again and again. */
  public static WireFaults stalls(long every, Duration stall) {
    return new WireFaults(0, 0, every, stall, NetFaults.NEVER, NetFaults.NEVER, NetFaults.NEVER);
  }

  /** Passes nothing on any more. */
  public static WireFaults stop(long after) {
    return new WireFaults(
        0, 0, NetFaults.NEVER, Duration.ZERO, after, NetFaults.NEVER, NetFaults.NEVER);
  }

  /** Resets the connection. */
  public static WireFaults reset(long after) {
    return new WireFaults(
        0, 0, NetFaults.NEVER, Duration.ZERO, NetFaults.NEVER, after, NetFaults.NEVER);
  }

  /** Flips a bit of one byte. */
  public static WireFaults flip(long at) {
    return new WireFaults(
        0, 0, NetFaults.NEVER, Duration.ZERO, NetFaults.NEVER, NetFaults.NEVER, at);
  }
}
