package org.nccl4j.api.bootstrap;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.os.KernelRandom;
import org.nccl4j.device.support.Patience;

/**
 * A bootstrap for ranks that are all in this process: they exchange data in memory, without
 * sockets.
 */
public final class LocalBootstrap extends DeadlineBootstrap {
  /** State that the ranks share. Guarded by its own lock. */
  private static final class Meeting {
    private final int nRanks;
    private final Duration deadline;
    private final Map<String, Meeting> reunions = new HashMap<>();
    private final Set<Meeting> subsets = Collections.newSetFromMap(new WeakHashMap<>());
    private final byte[] secret = KernelRandom.bytes(16);
    private final Map<Integer, Consumer<NcclException>> listeners = new HashMap<>();
    private final Map<Integer, CallListener> called = new HashMap<>();
    private final Map<Integer, List<Consumer<CallListener>>> earlyCalls = new HashMap<>();
    private byte[][] given;
    private List<byte[]> result;
    private int came;
    private long round;
    private NcclException failure;

    Meeting(int nRanks, Duration deadline) {
      this.nRanks = nRanks;
      this.deadline = deadline;
      this.given = new byte[nRanks][];
    }

    synchronized List<byte[]> exchange(int rank, byte[] mine, long endNanos) {
      checkFailure();
      given[rank] = mine;
      came++;
      long myRound = round;
      if (came == nRanks) {
        result = List.copyOf(Arrays.asList(given));
        given = new byte[nRanks][];
        came = 0;
        round++;
        notifyAll();
      }
      List<byte[]> mineToRead = result;
      while (round == myRound) {
        waitForOthers(rank, endNanos);
        mineToRead = result;
      }
      return mineToRead;
    }

    /** The meeting of some of the ranks for a key. */
    synchronized Meeting reunion(String key, int members) {
      return reunions.computeIfAbsent(key, none -> new Meeting(members, deadline));
    }

    /** The meeting of some of the ranks for a key, which fails with this one. */
    synchronized Meeting subset(String key, int members) {
      checkFailure();
      Meeting made = reunion(key, members);
      subsets.add(made);
      return made;
    }

    /** All of a reunion have come. */
    synchronized void met(String key) {
      reunions.remove(key);
    }

    private void waitForOthers(int rank, long endNanos) {
      long millis = (endNanos - System.nanoTime()) / 1_000_000;
      if (millis <= 0) {
        int[] missing = IntStream.range(0, nRanks).filter(r -> given[r] == null).toArray();
        throw new TimeoutException(
            ErrorId.RANKS_MISSING,
            "ranks %s did not make the same call within %s, of %d ranks in this process"
                .formatted(Arrays.toString(missing), Patience.text(deadline), nRanks),
            "make collective calls (creation, split, shrink, registerWindow, suspend) on all"
                + " ranks, or allow more time (withInitTimeout or NCCL4J_INIT_TIMEOUT)");
      }
      try {
        wait(millis);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new InvalidUsageException(
            ErrorId.INTERRUPTED,
            "rank %d's thread was interrupted while it waited for other ranks".formatted(rank),
            "do not interrupt a thread that is creating a communicator",
            e);
      }
      checkFailure();
    }

    synchronized void checkFailure() {
      if (failure != null) {
        throw failure.again();
      }
    }

    synchronized List<Consumer<NcclException>> fail(NcclException cause) {
      if (failure != null) {
        return List.of();
      }
      failure = cause;
      notifyAll();
      reunions.values().forEach(reunion -> reunion.fail(cause)); // splits under way
      subsets.forEach(subset -> subset.fail(cause));
      return List.copyOf(listeners.values());
    }

    /** Sets a rank's listener for calls, and gives it those that have come. */
    void answer(int rank, CallListener listener) {
      List<Consumer<CallListener>> early;
      synchronized (this) {
        called.put(rank, listener);
        early = earlyCalls.remove(rank);
      }
      if (early != null) {
        early.forEach(call -> call.accept(listener));
      }
    }

    /** Hands a rank a call, now or when it listens. */
    void call(int rank, Consumer<CallListener> call) {
      CallListener listener;
      synchronized (this) {
        listener = called.get(rank);
        if (listener == null) {
          earlyCalls.computeIfAbsent(rank, none -> new ArrayList<>()).add(call);
        }
      }
      if (listener != null) {
        call.accept(listener);
      }
    }

    /** The failure that there was, or null and the listener is kept. */
    synchronized NcclException listen(int rank, Consumer<NcclException> listener) {
      listeners.put(rank, listener);
      return failure;
    }
  }

  private final Meeting meeting;
  private final int rank;

  private LocalBootstrap(Meeting meeting, int rank) {
    super(Deadline.after(meeting.deadline));
    this.meeting = meeting;
    this.rank = rank;
  }

  /**
   * A bootstrap for each rank.
   *
   * @param deadline for what is made over it, from now on, and later for each exchange
   */
  public static List<Bootstrap> create(int nRanks, Duration deadline) {
    Meeting meeting = new Meeting(nRanks, deadline);
    List<Bootstrap> all = new ArrayList<>();
    for (int rank = 0; rank < nRanks; rank++) {
      all.add(new LocalBootstrap(meeting, rank));
    }
    return all;
  }

  @Override
  public int rank() {
    return rank;
  }

  @Override
  public int nRanks() {
    return meeting.nRanks;
  }

  @Override
  public byte[] secret() {
    return meeting.secret.clone();
  }

  @Override
  List<byte[]> exchange(byte[] mine, Deadline deadline) {
    return meeting.exchange(rank, mine, deadline.nanoTime());
  }

  @Override
  public void tellFailure(NcclException cause) {
    meeting.fail(cause).forEach(listener -> listener.accept(cause));
  }

  @Override
  public void onFailure(Consumer<NcclException> listener) {
    NcclException failure = meeting.listen(rank, listener);
    if (failure != null) {
      listener.accept(failure);
    }
  }

  @Override
  public void checkFailure() {
    meeting.checkFailure();
  }

  @Override
  public void tellNotice(byte[] notice) {
    // All ranks are of this process.
  }

  @Override
  public void onNotice(Consumer<byte[]> listener) {
    // Nobody tells any.
  }

  @Override
  public void onAsked(UnaryOperator<byte[]> listener) {
    // There is no root that could ask.
  }

  @Override
  public void onCall(CallListener listener) {
    meeting.answer(rank, listener);
  }

  @Override
  public CompletableFuture<byte[]> call(byte[] point, byte[] request) {
    CompletableFuture<byte[]> result = new CompletableFuture<>();
    meeting.call(
        ByteBuffer.wrap(point).getInt(),
        listener ->
            listener.called(
                request.clone(),
                answer -> {
                  if (answer == null) {
                    result.completeExceptionally(
                        new IOException("it refused the call, or its communicator is closed"));
                  } else {
                    result.complete(answer);
                  }
                }));
    return result;
  }

  @Override
  public byte[] meetingPoint() {
    return ByteBuffer.allocate(Integer.BYTES).putInt(rank).array();
  }

  @Override
  public Bootstrap reunite(List<Integer> members, byte[] lead, String key) {
    return meet(members, key, meeting.reunion(key + " " + members, members.size()));
  }

  @Override
  public Bootstrap subset(List<Integer> members, byte[] lead, String key) {
    return meet(members, key, meeting.subset(key + " " + members, members.size()));
  }

  private Bootstrap meet(List<Integer> members, String key, Meeting reunion) {
    LocalBootstrap mine = new LocalBootstrap(reunion, members.indexOf(rank));
    mine.barrier();
    meeting.met(key + " " + members);
    return mine;
  }

  @Override
  public void close() {
    // Nothing is held: the meeting goes with the last rank.
  }
}
