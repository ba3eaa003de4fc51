package org.nccl4j.device.cuda.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.InternalStreams;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.support.CloseAll;

/**
 * Large collectives of a group over connections. They share the channels: each has a part of them,
 * and those with different parts run at the same time, in streams beside the user's. So while one
 * begins or ends, others fill the links. A collective's part follows from the group's operations
 * alone, which are the same on all ranks; a rank may still run some of them one after the other.
 */
final class ChannelGroup implements WorkGroup, AutoCloseable {
  private static final int MOST_PARTS = 4;
  private static final int LEAST_CHANNELS = 2; // of a part
  private static final int MOST_WORKS = 64;
  private static final int MOST_KEPT = 64;

  /**
   * Bytes of all ranks' data: below, the streams take as long to part and to join as a collective;
   * above, a collective fills the links by itself.
   */
  private static final long LEAST_BYTES = 512 << 10;

  private static final long MOST_BYTES = 64 << 20;

  private final PlanContext context;
  private final CollectivePlans kernels;
  private final List<CollectiveWork> works = new ArrayList<>();
  private final int[] partOf = new int[MOST_WORKS];
  private final InternalStreams[] beside = new InternalStreams[MOST_PARTS]; // made at first use
  private final Together together = new Together();
  private int parts; // 0 before the works are divided
  private int channels; // of a part

  /** The last kernels, which groups of the same operations launch again. */
  private final Map<Key, CudaKernelPlan> kept = new LinkedHashMap<>(16, 0.75f, true);

  private record Key(CollectiveWork work, int first, int channels) {}

  /**
   * Groups of a communicator.
   *
   * @param kernels makes the kernels
   */
  ChannelGroup(PlanContext context, CollectivePlans kernels) {
    this.context = context;
    this.kernels = kernels;
  }

  /**
   * True if a collective of a communicator may be beside others: the same on all ranks. Proxies of
   * networks take few channels.
   */
  static boolean takes(CollectiveWork work, int ranks, int localRanks) {
    long whole = bytes(work, ranks);
    return ranks > 1 && localRanks == ranks && whole >= LEAST_BYTES && whole <= MOST_BYTES;
  }

  /** Bytes of all ranks' data. */
  private static long bytes(CollectiveWork work, int ranks) {
    return work.count() * work.type().bytes() * work.operation().wholes(ranks);
  }

  @Override
  public boolean add(CudaPlan plan) {
    if (works.size() == MOST_WORKS) {
      return false;
    }
    works.add(((CollectivePlan) plan).work());
    return true;
  }

  @Override
  public CudaPlan plan(int from, int to, long[] sends, long[] recvs) {
    if (parts == 0) {
      divide();
    }
    together.set(from, to, sends, recvs);
    return together;
  }

  /** Gives each collective the part that has the fewest bytes so far. */
  private void divide() {
    int all = works.stream().mapToInt(kernels::channels).max().orElse(1);
    parts = Math.max(1, Math.min(Math.min(MOST_PARTS, works.size()), all / LEAST_CHANNELS));
    channels = all / parts;
    long[] bytes = new long[parts];
    for (int w = 0; w < works.size(); w++) {
      int least = 0;
      for (int part = 1; part < parts; part++) {
        least = bytes[part] < bytes[least] ? part : least;
      }
      partOf[w] = least;
      bytes[least] += bytes(works.get(w), context.spec().nRanks());
    }
  }

  private CudaKernelPlan kernel(int number) {
    CollectiveWork work = works.get(number);
    Key key = new Key(work, partOf[number] * channels, Math.min(channels, kernels.channels(work)));
    CudaKernelPlan kernel = kept.get(key);
    if (kernel == null) {
      kernel = kernels.part(key.work, key.first, key.channels);
      kept.put(key, kernel);
      if (kept.size() > MOST_KEPT) {
        kept.remove(kept.keySet().iterator().next()).discard();
      }
    }
    return kernel;
  }

  private InternalStreams.Side side(int part, GpuStream stream, boolean captured) {
    if (beside[part] == null) {
      beside[part] = new InternalStreams(context.gpu(), GpuStream::waiting);
    }
    return beside[part].of(stream, captured);
  }

  @Override
  public void clear() {
    works.clear();
    parts = 0;
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    Arrays.stream(beside)
        .filter(streams -> streams != null)
        .forEach(streams -> all.take(streams::close));
    all.end();
  }

  /** The collectives that are to be launched now. */
  private final class Together implements CudaPlan {
    private final InternalStreams.Side[] sides = new InternalStreams.Side[MOST_PARTS];
    private int from;
    private int to;
    private long[] sends;
    private long[] recvs;
    private int blocks;

    private void set(int begin, int end, long[] sendAddresses, long[] recvAddresses) {
      from = begin;
      to = end;
      sends = sendAddresses;
      recvs = recvAddresses;
      blocks = Math.min(parts, to - from) * channels;
    }

    @Override
    public PlanContext owner() {
      return context;
    }

    @Override
    public int blocks() {
      return blocks;
    }

    @Override
    public void discard() {} // its kernels are the group's

    @Override
    public void launch(long send, long recv, GpuStream stream) {
      boolean apart = to - from > 1 && parts > 1 && !context.hasOneQueue();
      Arrays.fill(sides, null);
      if (apart) {
        part(stream);
      }
      for (int w = from; w < to; w++) {
        InternalStreams.Side side = sides[partOf[w]];
        kernel(w).launch(sends[w], recvs[w], side == null ? stream : side.stream());
      }
      for (InternalStreams.Side side : sides) {
        if (side != null) {
          side.join(stream);
        }
      }
    }

    /**
     * Has the streams of the parts begin behind the user's, which the first part needs no other
     * for.
     */
    private void part(GpuStream stream) {
      boolean captured = CudaLibrary.isCapturing(stream.handle(), context.gpu());
      for (int w = from; w < to; w++) {
        int part = partOf[w];
        if (part > 0 && sides[part] == null) {
          sides[part] = side(part, stream, captured);
          sides[part].part(stream);
        }
      }
    }

    @Override
    public String toString() {
      return "%d collectives on %d channels".formatted(to - from, blocks);
    }
  }
}
