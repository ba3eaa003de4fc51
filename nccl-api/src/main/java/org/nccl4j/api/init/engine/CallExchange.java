package org.nccl4j.api.init.engine;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.Patience;

/**
 * An exchange of a few bytes beside the bootstrap's own, which threads of the user may be using:
 * every rank calls rank 0 with its part, and rank 0 answers once it has all. {@code allGather} by
 * one thread, {@code called} by any.
 */
final class CallExchange implements Exchange {
  private static final int ROOT = 0;

  /** In place of an answer's length: the exchange is over, and why. */
  private static final int OVER = -1;

  /** Number of the last step. */
  private static final int COMMIT = Integer.MAX_VALUE;

  /** Bytes of a part; longer ones are cut, which are texts of errors. */
  private static final int MOST_PART = 2 << 10;

  /** Bytes of an answer; the rest is asked for again. */
  private static final int PAGE = 2 << 10;

  /** Longest time between two looks at whether another rank or the user ends the communicator. */
  private static final long LOOK_MILLIS = 20;

  private final String name;
  private final Bootstrap bootstrap;
  private final List<byte[]> points;
  private final int tag;
  private final Runnable check;
  private final long endNanos;
  private final Answers answers;
  private int steps;
  private volatile String over;

  /**
   * An exchange that ends by the bootstrap's deadline for one that begins now.
   *
   * @param points meeting points of all ranks
   * @param tag what a call begins with
   * @param check throws if the exchange is to end
   * @param answers used by rank 0
   */
  CallExchange(
      String name,
      Bootstrap bootstrap,
      List<byte[]> points,
      int tag,
      Runnable check,
      Answers answers) {
    this.name = name;
    this.bootstrap = bootstrap;
    this.points = points;
    this.tag = tag;
    this.check = check;
    this.answers = answers;
    this.endNanos = bootstrap.exchangeEnd();
  }

  /** Parts that rank 0 has been given, and ranks that it has yet to answer. Any thread. */
  static final class Answers {
    private final int nRanks;
    private final long patienceNanos;
    private final Map<Integer, Step> steps = new HashMap<>();
    private boolean ended;
    private boolean committed;

    /** Why the exchange is over before its end; null if it is not. */
    private String over;

    /** When the last step was complete, or when somebody first asked; 0 before. */
    private long lastNanos;

    /**
     * Answers of an exchange.
     *
     * @param patience how long all ranks may take for a step before it is over
     */
    Answers(int nRanks, Duration patience) {
      this.nRanks = nRanks;
      this.patienceNanos = patience.toNanos();
    }

    /**
     * Returns whether the exchange is over because a step has taken too long, and why; null while
     * it goes on, and once it has come to its good end.
     */
    String verdict() {
      List<Asker> left = new ArrayList<>();
      String why;
      synchronized (this) {
        long now = System.nanoTime();
        lastNanos = lastNanos == 0 ? now : lastNanos;
        if (over == null && !committed && !ended && now - lastNanos > patienceNanos) {
          over = lateness();
          steps.values().stream()
              .filter(step -> step.whole == null)
              .forEach(
                  step -> {
                    left.addAll(step.askers);
                    step.askers.clear();
                  });
        }
        why = over;
      }
      left.forEach(each -> each.answer.accept(refusal(why)));
      return why;
    }

    private String lateness() {
      List<Integer> late = new ArrayList<>();
      steps.values().stream()
          .filter(step -> step.whole == null)
          .forEach(
              step ->
                  IntStream.range(0, nRanks)
                      .filter(rank -> step.parts[rank] == null)
                      .forEach(late::add));
      return "%s did not take a step within %s; kernels that wait for others may keep a GPU busy"
          .formatted(
              late.isEmpty() ? "all ranks" : "ranks " + late,
              Patience.text(Duration.ofNanos(patienceNanos)));
    }

    private static byte[] refusal(String why) {
      byte[] text = why.getBytes(StandardCharsets.UTF_8);
      return ByteBuffer.allocate(Integer.BYTES + text.length).putInt(OVER).put(text).array();
    }

    private record Asker(int from, Consumer<byte[]> answer) {}

    private static final class Step {
      private final byte[][] parts;
      private final List<Asker> askers = new ArrayList<>();
      private byte[] whole;

      Step(int nRanks) {
        parts = new byte[nRanks][];
      }
    }

    /** Takes a call, after its tag. */
    void called(ByteBuffer request, Consumer<byte[]> answer) {
      if (request.remaining() < 3 * Integer.BYTES) {
        answer.accept(null);
        return;
      }
      int rank = request.getInt();
      int number = request.getInt();
      Asker asker = new Asker(request.getInt(), answer);
      byte[] part = new byte[request.remaining()];
      request.get(part);
      List<Asker> waiting = List.of(asker);
      Function<Asker, byte[]> reply = each -> null;
      synchronized (this) {
        lastNanos = lastNanos == 0 ? System.nanoTime() : lastNanos;
        if (!ended && rank >= 0 && rank < nRanks && asker.from >= 0) {
          Step step = steps.computeIfAbsent(number, none -> new Step(nRanks));
          take(step, number, rank, part, asker);
          if (step.whole == null && over == null) {
            return; // the rank is answered when the last part has come
          }
          reply = reply(step);
          waiting = List.copyOf(step.askers);
          step.askers.clear();
        }
      }
      for (Asker each : waiting) {
        each.answer.accept(reply.apply(each));
      }
    }

    private void take(Step step, int number, int rank, byte[] part, Asker asker) {
      if (asker.from == 0) {
        step.parts[rank] = part;
      }
      step.askers.add(asker);
      if (step.whole == null && Arrays.stream(step.parts).allMatch(each -> each != null)) {
        complete(number, step);
      }
    }

    /** The answers of a step that has all parts, or of an exchange that is over. */
    private Function<Asker, byte[]> reply(Step step) {
      byte[] whole = step.whole;
      if (whole == null) {
        byte[] refusal = refusal(over);
        return each -> refusal;
      }
      return each -> page(whole, each.from);
    }

    private void complete(int number, Step step) {
      if (over == null) {
        step.whole = join(step.parts);
        lastNanos = System.nanoTime();
        committed |= number == COMMIT;
      }
    }

    /** Refuses who has not been answered, and all that come. */
    void end() {
      List<Asker> left = new ArrayList<>();
      synchronized (this) {
        ended = true;
        steps.values().forEach(step -> left.addAll(step.askers));
        steps.clear();
      }
      left.forEach(each -> each.answer.accept(null));
    }

    private static byte[] page(byte[] whole, int from) {
      int begin = Math.min(from, whole.length);
      int end = Math.min(whole.length, begin + PAGE);
      return ByteBuffer.allocate(Integer.BYTES + end - begin)
          .putInt(whole.length)
          .put(whole, begin, end - begin)
          .array();
    }

    private static byte[] join(byte[][] parts) {
      int bytes = Arrays.stream(parts).mapToInt(part -> Integer.BYTES + part.length).sum();
      ByteBuffer whole = ByteBuffer.allocate(bytes);
      for (byte[] part : parts) {
        whole.putInt(part.length).put(part);
      }
      return whole.array();
    }
  }

  @Override
  public List<byte[]> allGather(byte[] mine) {
    return allGather(steps++, mine);
  }

  /** Ends the exchange: once one rank returns from it, all do. */
  void commit() {
    allGather(COMMIT, new byte[0]);
  }

  /** Why the exchange is over, after an exception; null if it is not. */
  String over() {
    return over;
  }

  private List<byte[]> allGather(int step, byte[] mine) {
    byte[] part = Arrays.copyOf(mine, Math.min(mine.length, MOST_PART));
    ByteBuffer whole = null;
    do {
      byte[] page = ask(step, whole == null ? 0 : whole.position(), part);
      if (page.length < Integer.BYTES) {
        throw notUnderstood();
      }
      checkOver(page);
      if (whole == null) {
        whole = ByteBuffer.allocate(Math.max(0, ByteBuffer.wrap(page).getInt()));
        part = new byte[0];
      }
      int more = page.length - Integer.BYTES;
      if (more > whole.remaining() || more == 0 && whole.hasRemaining()) {
        throw notUnderstood();
      }
      whole.put(page, Integer.BYTES, more);
    } while (whole.hasRemaining());
    return split(whole.flip());
  }

  private void checkOver(byte[] page) {
    if (ByteBuffer.wrap(page).getInt() == OVER) {
      over = new String(page, Integer.BYTES, page.length - Integer.BYTES, StandardCharsets.UTF_8);
      throw new TimeoutException(
          ErrorId.NOT_CONNECTED,
          "NVLS of communicator %s is not made: %s".formatted(name, over),
          "set NCCL_NVLS_ENABLE=0, or call operations of several ranks of a thread in groups");
    }
  }

  private List<byte[]> split(ByteBuffer whole) {
    List<byte[]> parts = new ArrayList<>();
    for (int rank = 0; rank < bootstrap.nRanks(); rank++) {
      int length = whole.remaining() < Integer.BYTES ? -1 : whole.getInt();
      if (length < 0 || length > whole.remaining()) {
        throw notUnderstood();
      }
      byte[] part = new byte[length];
      whole.get(part);
      parts.add(part);
    }
    return parts;
  }

  private byte[] ask(int step, int from, byte[] part) {
    byte[] request =
        ByteBuffer.allocate(4 * Integer.BYTES + part.length)
            .putInt(tag)
            .putInt(bootstrap.rank())
            .putInt(step)
            .putInt(from)
            .put(part)
            .array();
    CompletableFuture<byte[]> call = new CompletableFuture<>();
    if (bootstrap.rank() == ROOT) {
      answers.called(ByteBuffer.wrap(request).position(Integer.BYTES), call::complete);
    } else {
      call = bootstrap.call(points.get(ROOT), request);
    }
    try {
      return await(call);
    } finally {
      call.cancel(false);
    }
  }

  private byte[] await(CompletableFuture<byte[]> call) {
    while (true) {
      check.run();
      bootstrap.checkFailure();
      try {
        byte[] answer = call.get(LOOK_MILLIS, TimeUnit.MILLISECONDS);
        if (answer == null) {
          throw unreachable("its communicator is closed", null);
        }
        return answer;
      } catch (java.util.concurrent.TimeoutException e) {
        if (System.nanoTime() - endNanos > 0) {
          throw new TimeoutException(
              ErrorId.NOT_CONNECTED,
              "rank %d of communicator %s has not heard by the deadline that all ranks take part in"
                      .formatted(bootstrap.rank(), name)
                  + " making NVLS",
              "see that all ranks' processes run, give more time (withInitTimeout or"
                  + " NCCL4J_INIT_TIMEOUT), or set NCCL_NVLS_ENABLE=0",
              e);
        }
      } catch (ExecutionException e) {
        throw unreachable(e.getCause().getMessage(), e.getCause());
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new InvalidUsageException(
            ErrorId.INTERRUPTED,
            "rank %d was interrupted while it made NVLS".formatted(bootstrap.rank()),
            "do not interrupt threads of the library",
            e);
      }
    }
  }

  private SystemErrorException unreachable(String why, Throwable cause) {
    return new SystemErrorException(
        ErrorId.UNREACHABLE,
        "rank %d of communicator %s cannot call rank %d to make NVLS: %s"
            .formatted(bootstrap.rank(), name, ROOT, why),
        "see that its process still runs and its communicator is open",
        cause);
  }

  private static InvalidUsageException notUnderstood() {
    return new InvalidUsageException(
        ErrorId.RANKS_DIFFER,
        "rank 0's answer to the making of NVLS is not understood",
        "run the same version of nccl4j on all ranks");
  }

  @Override
  public long endNanos() {
    return endNanos;
  }
}
