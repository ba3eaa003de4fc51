package org.nccl4j.it.perf.rank;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** Ranks as threads of this process. */
public final class ThreadRanks {
  private ThreadRanks() {}

  /**
   * Starts them.
   *
   * @param all of the first thread; the others' are like it
   */
  public static Ranks start(RankSpec all) {
    List<RankLink> links = new ArrayList<>();
    CommunicatorSource entrance = new LocalEntrance();
    for (int rank = 0; rank < all.nRanks(); rank += all.drives()) {
      links.add(new Link(all.at(rank, all.drives()), entrance));
    }
    return new LinkedRanks(links);
  }

  private static final class Link implements RankLink {
    private final BlockingQueue<Command> orders = new ArrayBlockingQueue<>(1);
    private final BlockingQueue<Reply> answers = new ArrayBlockingQueue<>(1);
    private final Thread thread;

    Link(RankSpec spec, CommunicatorSource entrance) {
      thread = new Thread(() -> work(spec, entrance), "rank " + spec.rank());
      thread.setDaemon(true);
      thread.start();
    }

    private void work(RankSpec spec, CommunicatorSource entrance) {
      try (RankWorker worker = new RankWorker(spec, entrance)) {
        Command order;
        do {
          order = orders.take();
          answers.put(worker.obey(order));
        } while (!(order instanceof Command.Leave));
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }

    @Override
    public void give(Command order) {
      orders.add(order);
    }

    @Override
    public Reply poll(Duration patience) throws InterruptedException {
      return answers.poll(patience.toNanos(), TimeUnit.NANOSECONDS);
    }

    @Override
    public String lastWords() {
      StringBuilder where = new StringBuilder("is at");
      StackTraceElement[] stack = thread.getStackTrace();
      for (int i = 0; i < Math.min(12, stack.length); i++) {
        where.append("\n    ").append(stack[i]);
      }
      return where.toString();
    }

    @Override
    public void close() {
      thread.interrupt();
    }
  }
}
