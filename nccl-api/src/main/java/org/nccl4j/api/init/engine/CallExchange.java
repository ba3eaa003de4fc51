package org.nccl4j.api.init.engine;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.spi.MulticastProvider.Exchange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/**
 * An exchange of a few bytes beside the bootstrap's own, which threads of the user may be using:
 * every rank calls rank 0 with its part, and rank 0 answers once it has all. {@code allGather} by
 * one thread, {@code called} by any.
 */
final class CallExchange implements Exchange {
  private static final int ROOT = 0;

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
    private final Map<Integer, Step> steps = new HashMap<>();
    private boolean ended;

    Answers(int nRanks) {
      this.nRanks = nRanks;
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
      List<Asker> complete = List.of();
      byte[] whole = null;
      synchronized (this) {
        if (!ended && rank >= 0 && rank < nRanks && asker.from >= 0) {
          Step step = steps.computeIfAbsent(number, none -> new Step(nRanks));
          if (asker.from == 0) {
            step.parts[rank] = part;
          }
          step.askers.add(asker);
          if (step.whole == null && Arrays.stream(step.parts).allMatch(each -> each != null)) {
            step.whole = join(step.parts);
          }
          if (step.whole == null) {
            return;
          }
          whole = step.whole;
          complete = List.copyOf(step.askers);
          step.askers.clear();
        }
      }
      if (whole == null) {
        answer.accept(null);
      }
      for (Asker each : complete) {
        each.answer.accept(page(whole, each.from));
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
    int step = steps++;
    byte[] part = Arrays.copyOf(mine, Math.min(mine.length, MOST_PART));
    ByteBuffer whole = null;
    do {
      byte[] page = ask(step, whole == null ? 0 : whole.position(), part);
      if (page.length < Integer.BYTES) {
        throw notUnderstood();
      }
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
              "see that all ranks' processes run, give more time (withInitDeadline or"
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
