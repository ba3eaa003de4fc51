package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.StreamingCopy;
import org.nccl4j.device.support.CopyWays;

/**
 * Copies data of one connection, or between buffers, by the fastest of three ways: the JVM's copy,
 * the C library's, and streaming stores. Which that is depends on the processor, on the size, on
 * where the lines are, and on a virtual machine also on the time: so every few thousand copies of
 * about a size all ways are measured by turns, on copies a fixed distance apart: an operation's
 * copies to this rank, to its peers and from a step's parts follow each other in a fixed order, and
 * all ways have to meet the same of them. No probe at creation can tell: until the JVM has compiled
 * its copy, which takes longer than the creation, the interpreter has another one. Until the first
 * measurement the way is that of other connections, of this process or of one before on this
 * machine ({@link CopyWays}); where there is one, the first measurement comes a period later. Owned
 * by the thread that runs the current kernel.
 */
final class MeasuredCopies {
  /** Copies of less are the JVM's: they take little longer than to read the clock. */
  static final int LEAST_BYTES = 2 << 10;

  /**
   * Copies of a class of sizes from one measurement to the next. The first ones touch new pages.
   */
  static final int PERIOD = 2048;

  /** A period also ends after so many bytes, once all ways have been measured in it. */
  static final long PERIOD_BYTES = 1 << 30;

  /** The first copy of a period that is measured. */
  static final int FIRST = 64;

  /** From one measured copy to the next: a multiple of the usual numbers of an order's copies. */
  static final int SPACING = 24;

  /** Measured copies of each way; odd, for a median. */
  static final int SAMPLES = 7;

  static final int BY_JVM = CopyWays.Way.JVM.ordinal();
  static final int BY_LIBRARY = CopyWays.Way.LIBRARY.ordinal();
  static final int BY_STREAMING = CopyWays.Way.STREAMING.ordinal();

  private static final CopyWays.Way[] WAYS = CopyWays.Way.values();
  private static final int CLASSES = CopyWays.SIZES.size();

  /**
   * The writer's streaming stores are to save so much of its time, since the reader finds the data
   * further away.
   */
  private static final double SLOT_WORTH = 0.75;

  /** An ordinary copy leaves the writing of lines, which it has made dirty, to later copies. */
  private static final double LEAVING_WORTH = 1.25;

  private final StreamingCopy streaming = StreamingCopy.open();
  private final Choice[] choices = new Choice[CLASSES];
  private final int ways;
  private final double worth;
  private final CopyWays known;
  private final CopyWays.Kind kind;

  /** The choice for copies of about one size. */
  private static final class Choice {
    /** Picoseconds a byte, of each way in ascending order. */
    final long[][] picos;

    int copies;
    long moved;
    int way;

    /** The number of the copy that is being measured, or -1. */
    int sample = -1;

    /** True once the way is known, from another connection or from a measurement. */
    boolean isKnown;

    Choice(int ways, int first) {
      picos = new long[ways][SAMPLES];
      way = first;
    }
  }

  /**
   * Copies by some ways.
   *
   * @param known the ways that other connections have found
   * @param worth streaming stores may take so many times the time of the faster ordinary copy
   * @param streams whether streaming stores are one of them
   * @param first the way before the first measurement, from {@link Copies#MANY} bytes on
   */
  private MeasuredCopies(
      CopyWays known, CopyWays.Kind kind, double worth, boolean streams, int first) {
    this.known = known;
    this.kind = kind;
    boolean has = streams && streaming.isAvailable();
    this.worth = worth;
    this.ways = has ? 3 : 2;
    for (int c = 0; c < CLASSES; c++) {
      choices[c] = new Choice(ways, c == 0 ? BY_JVM : has ? first : BY_LIBRARY);
    }
  }

  /**
   * Copies into slots, whose lines lie in the reader's cache when the writer fills them again: an
   * ordinary store asks for each of them, and a streaming store for none.
   */
  static MeasuredCopies intoSlots(CopyWays known) {
    return new MeasuredCopies(
        known, CopyWays.Kind.SLOTS, SLOT_WORTH, /* streams= */ true, BY_LIBRARY);
  }

  /** Copies whose outcome is soon read, from the caches. */
  static MeasuredCopies kept(CopyWays known) {
    return kept(known, CopyWays.Kind.KEPT);
  }

  /** The same of a kind. */
  static MeasuredCopies kept(CopyWays known, CopyWays.Kind kind) {
    return new MeasuredCopies(known, kind, 0, /* streams= */ false, BY_LIBRARY);
  }

  /** Copies whose outcome leaves the caches before anybody reads it. */
  static MeasuredCopies leaving(CopyWays known) {
    return leaving(known, CopyWays.Kind.LEAVING);
  }

  /** The same of a kind. */
  static MeasuredCopies leaving(CopyWays known, CopyWays.Kind kind) {
    return new MeasuredCopies(known, kind, LEAVING_WORTH, /* streams= */ true, BY_STREAMING);
  }

  /** Copies some bytes, of which the next release store of this thread tells other threads. */
  @HotPath
  void copy(HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    if (bytes < LEAST_BYTES) {
      Copies.copy(source, sourceOffset, target, targetOffset, bytes);
      return;
    }
    int way = turn(bytes);
    int sample = sample(bytes);
    boolean measured = sample >= 0;
    long begin = measured ? System.nanoTime() : 0;
    if (way == BY_JVM) {
      Copies.copyByJvm(source, sourceOffset, target, targetOffset, bytes);
    } else if (way == BY_LIBRARY) {
      HostMemory.move(source.address() + sourceOffset, target.address() + targetOffset, bytes);
    } else {
      streaming.copy(source.address() + sourceOffset, target.address() + targetOffset, bytes);
    }
    if (measured) {
      add(bytes, sample, (System.nanoTime() - begin) * 1000 / bytes);
    }
  }

  /** Counts a copy of so many bytes, and returns its way. */
  @HotPath
  int turn(int bytes) {
    Choice choice = choices[sizeClass(bytes)];
    begin(choice, sizeClass(bytes));
    int sample = nextSample(choice);
    count(choice, bytes);
    choice.sample = sample;
    return sample < 0 ? choice.way : sample % ways;
  }

  /** The number of the counted copy of about so many bytes if it is measured, else -1. */
  @HotPath
  int sample(int bytes) {
    return choices[sizeClass(bytes)].sample;
  }

  /**
   * True if the next copy of so many bytes is by streaming stores, or measured. Otherwise the
   * caller may do without it, and it counts as made: so the ways are measured again in time.
   */
  @HotPath
  boolean streams(int bytes) {
    if (bytes < LEAST_BYTES || ways <= BY_STREAMING) {
      return false;
    }
    Choice choice = choices[sizeClass(bytes)];
    begin(choice, sizeClass(bytes));
    if (choice.way == BY_STREAMING || nextSample(choice) >= 0) {
      return true;
    }
    count(choice, bytes);
    return false;
  }

  @HotPath
  private int nextSample(Choice choice) {
    int since = choice.copies - FIRST;
    boolean measured = since >= 0 && since < SPACING * ways * SAMPLES && since % SPACING == 0;
    return measured ? since / SPACING : -1;
  }

  @HotPath
  private void count(Choice choice, int bytes) {
    choice.copies++;
    choice.moved += bytes;
    boolean ended = choice.copies >= PERIOD || choice.moved >= PERIOD_BYTES;
    if (ended && choice.copies >= FIRST + SPACING * ways * SAMPLES) {
      choice.copies = 0;
      choice.moved = 0;
    }
  }

  /** Begins with the way that other connections have found, if there is one by now. */
  @HotPath
  private void begin(Choice choice, int sizes) {
    if (choice.isKnown || choice.copies != 0 && choice.copies != FIRST) {
      return;
    }
    int way = known.number(kind, sizes);
    if (way != CopyWays.UNKNOWN && way < ways) {
      choice.way = way;
      choice.isKnown = true;
      choice.copies = FIRST + SPACING * ways * SAMPLES;
    }
  }

  @HotPath
  private static int sizeClass(int bytes) {
    return bytes < 32 << 10 ? (bytes < 8 << 10 ? 0 : 1) : bytes < 256 << 10 ? 2 : 3;
  }

  /** Adds a time to those of about a size, and chooses after the last one. */
  @HotPath
  void add(int bytes, int sample, long picos) {
    Choice choice = choices[sizeClass(bytes)];
    long[] times = choice.picos[sample % ways];
    int at = sample / ways;
    for (; at > 0 && times[at - 1] > picos; at--) {
      times[at] = times[at - 1];
    }
    times[at] = picos;
    if (sample == ways * SAMPLES - 1) {
      choose(choice);
      known.choose(kind, sizeClass(bytes), WAYS[choice.way]);
    }
  }

  @HotPath
  private void choose(Choice choice) {
    choice.isKnown = true;
    long jvm = choice.picos[BY_JVM][SAMPLES / 2];
    long library = choice.picos[BY_LIBRARY][SAMPLES / 2];
    choice.way = library <= jvm ? BY_LIBRARY : BY_JVM;
    if (ways > BY_STREAMING
        && choice.picos[BY_STREAMING][SAMPLES / 2] < worth * Math.min(jvm, library)) {
      choice.way = BY_STREAMING;
    }
  }

  /** The way of copies of so many bytes now. */
  int way(int bytes) {
    return choices[sizeClass(bytes)].way;
  }

  /** Copies of about so many bytes since the last period's begin. */
  int counted(int bytes) {
    return choices[sizeClass(bytes)].copies;
  }

  /** Ways that are measured. */
  int ways() {
    return ways;
  }
}
