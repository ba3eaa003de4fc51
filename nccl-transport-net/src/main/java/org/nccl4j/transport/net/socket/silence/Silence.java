package org.nccl4j.transport.net.socket.silence;

import java.time.Duration;

/**
 * Detects that a link's first socket is silent. The side that dialled asks the other after half of
 * the limit, and replaces the socket after all of it. The other side answers, and sends a sign now
 * and then while it reads or cannot read. The time begins anew where a side's own program blocked
 * its reading, or its process stood still. Time is an argument, in nanoseconds. Owned by the thread
 * that has the link's turn, but for {@link #look}.
 */
public final class Silence {
  private final long bound;
  private final boolean dials;

  /** Written by the watch alone: its last look, and whether it has come late since. */
  private long looked;

  private boolean stoodStill;

  private long heard;
  private long heardBytes;

  /** At the end of the last rest; -1 before the first. */
  private long restedBytes = -1;

  private long asked;
  private boolean asking;
  private long signed;
  private long signedBytes;
  private boolean isAsked;

  /**
   * Begins with a socket over which something has just come.
   *
   * @param bound time after which silence is a doubt; zero for no doubt ever
   * @param dials whether this side judges, else it answers
   */
  public Silence(Duration bound, boolean dials, long now) {
    this.bound = bound.toNanos();
    this.dials = dials;
    this.looked = now;
    this.signed = now;
    begin(now);
  }

  public boolean isOn() {
    return bound > 0;
  }

  /** The watch has come; it may find that another thread has the link's turn. */
  public void look(long now) {
    stoodStill |= now - looked > bound / 2;
    looked = now;
  }

  /**
   * The watch has not come because nothing was under way: what has come may now be read. Rests
   * between which nothing comes are one silence, else a rank that waits and ends each rest would
   * never ask.
   *
   * @param bytes that have come
   */
  public void rested(long now, long bytes) {
    looked = now;
    stoodStill = false;
    if (bytes != restedBytes) {
      restedBytes = bytes;
      begin(now - bound / 4);
    }
  }

  /** Begins anew: with another socket, or because this side cannot know. */
  public void begin(long now) {
    heard = now;
    asking = false;
  }

  /** True if nothing has come for so long that the socket is to be read though nobody asks. */
  public boolean isQuiet(long now, long bytes) {
    if (!isOn()) {
      return false;
    }
    if (stoodStill) {
      stoodStill = false;
      begin(now);
    }
    return !hear(now, bytes) && now - heard >= bound / 4;
  }

  /** Notes what has come by now; true if there was something new. */
  public boolean hear(long now, long bytes) {
    if (bytes == heardBytes) {
      return false;
    }
    heardBytes = bytes;
    begin(now);
    return true;
  }

  /** True if the other side is to be asked for a sign. */
  public boolean mayAsk(long now) {
    return isOn() && dials && !asking && now - heard >= bound / 2;
  }

  /** It has been asked, or bytes of a message are under way that do the same. */
  public void ask(long now) {
    asking = true;
    asked = now;
  }

  /** True if another socket is to be tried. */
  public boolean isDoubtful(long now) {
    return asking && now - heard > bound && now - asked > bound / 2;
  }

  /** True while an answer is awaited. */
  public boolean isAsking() {
    return asking;
  }

  /** The other side asks for a sign. */
  public void answerSoon() {
    isAsked = true;
  }

  /**
   * True if a sign is due.
   *
   * @param bytes that have come
   * @param blocked whether they cannot be read
   */
  public boolean owesSign(long now, long bytes, boolean blocked) {
    return isOn()
        && !dials
        && (isAsked || (blocked || bytes != signedBytes) && now - signed >= bound / 4);
  }

  /** A sign has been given. */
  public void sign(long now, long bytes) {
    isAsked = false;
    signed = now;
    signedBytes = bytes;
  }
}
