package org.nccl4j.api.plan.trial;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * Decisions on trials that are the same on all ranks of a communicator, in a file that all of them
 * map. A decision is made by the first rank that comes to it, from what all ranks have found so
 * far; the others take it. So nobody waits. Ranks that do not all map one file try nothing. Owner:
 * the thread that launches.
 *
 * <p>Words of 4 bytes: 1 for each rank that has joined; decisions by shape and round; for each rank
 * and shape what it has found spent, a float, and the trials of which it knows that.
 */
final class TrialAgreement implements AutoCloseable {
  private static final long LEAST_SPACE = 1 << 20;
  private static final VarHandle WORDS =
      MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());
  private static final int NO = 1;
  private static final int YES = 2;

  private final Path file;
  private final ByteBuffer words;
  private final int rank;
  private final int nRanks;
  private final int shapes;

  /** True once all ranks were seen. */
  private boolean complete;

  private TrialAgreement(Path file, ByteBuffer words, int rank, int nRanks, int shapes) {
    this.file = file;
    this.words = words;
    this.rank = rank;
    this.nRanks = nRanks;
    this.shapes = shapes;
    WORDS.setRelease(words, rank * Integer.BYTES, 1);
  }

  /**
   * Joins the ranks of a communicator.
   *
   * @param communicator its number, which no other has
   * @param shapes the most that are decided on
   */
  static TrialAgreement join(Path folder, long communicator, int rank, int nRanks, int shapes)
      throws IOException {
    TrialFolder.make(folder.toAbsolutePath());
    if (Files.getFileStore(folder).getUsableSpace() < LEAST_SPACE) {
      throw new IOException(
          "the file system is full"); // to touch a page without room ends a process
    }
    Path file = folder.resolve("agreement-" + Long.toHexString(communicator));
    long bytes =
        (long) Integer.BYTES * (nRanks + shapes * TrialSchedule.ROUNDS + 2 * nRanks * shapes);
    try (FileChannel channel =
        FileChannel.open(
            file,
            StandardOpenOption.CREATE,
            StandardOpenOption.READ,
            StandardOpenOption.WRITE,
            LinkOption.NOFOLLOW_LINKS)) {
      ByteBuffer words =
          channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes).order(ByteOrder.nativeOrder());
      return new TrialAgreement(file, words, rank, nRanks, shapes);
    }
  }

  /**
   * Decides on a trial, or learns what was decided.
   *
   * @param wanted this rank's own finding
   */
  boolean decide(int shape, int round, boolean wanted) {
    int at = Integer.BYTES * (nRanks + shape * TrialSchedule.ROUNDS + round);
    int decided = (int) WORDS.getAcquire(words, at);
    if (decided == 0) {
      int mine = wanted && isComplete() ? YES : NO;
      decided = (int) WORDS.compareAndExchange(words, at, 0, mine);
      decided = decided == 0 ? mine : decided;
    }
    return decided == YES;
  }

  /** Ranks that have not joined: they are late, or have another folder of this name. */
  List<Integer> missing() {
    List<Integer> missing = new ArrayList<>();
    for (int each = 0; each < nRanks; each++) {
      if (!hasJoined(each)) {
        missing.add(each);
      }
    }
    return missing;
  }

  /** True for the first of the ranks that have joined, which speaks for them. */
  boolean isFirst() {
    for (int each = 0; each < rank; each++) {
      if (hasJoined(each)) {
        return false;
      }
    }
    return true;
  }

  private boolean hasJoined(int each) {
    return (int) WORDS.getAcquire(words, each * Integer.BYTES) != 0;
  }

  /** True once all ranks have joined. */
  boolean isComplete() {
    for (int each = 0; !complete && each < nRanks; each++) {
      if (!hasJoined(each)) {
        return false;
      }
    }
    complete = true;
    return true;
  }

  /**
   * Tells the other ranks what this one has found spent.
   *
   * @param known trials of which it knows that
   */
  void tell(int shape, double calls, int known) {
    int at = place(rank, shape);
    WORDS.setRelease(words, at, Float.floatToRawIntBits((float) calls));
    WORDS.setRelease(words, at + Integer.BYTES, known);
  }

  /**
   * The least that a rank has found spent, which is not less than what was: a rank that waits for
   * others takes that for the time of a trial. Infinite while one does not know it of all trials.
   *
   * @param tried all trials so far
   */
  double spent(int shape, int tried) {
    double least = Double.POSITIVE_INFINITY;
    for (int each = 0; each < nRanks; each++) {
      int at = place(each, shape);
      if ((int) WORDS.getAcquire(words, at + Integer.BYTES) != tried) {
        return Double.POSITIVE_INFINITY;
      }
      least = Math.min(least, Float.intBitsToFloat((int) WORDS.getAcquire(words, at)));
    }
    return least;
  }

  private int place(int of, int shape) {
    return Integer.BYTES * (nRanks + shapes * TrialSchedule.ROUNDS + 2 * (of * shapes + shape));
  }

  /** Removes the file; ranks that map it go on. A file that stays harms nobody. */
  @Override
  public void close() {
    file.toFile().delete();
  }
}
