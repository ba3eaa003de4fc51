package org.nccl4j.api.plan;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Collective;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.Protocol;

/**
 * Turns operations into kernel plans. Every rank decides alike, from what all of them know. Used by
 * one thread at a time.
 */
public final class Planner {
  /** Up to here a send takes LL: its latency counts for more than its bandwidth. */
  private static final long LL_SEND_BYTES = 512;

  private static final int LEAST_CHUNK = 8 << 10;
  private static final int CHUNKS_A_PART = 4;

  private final KernelCommunicator kernels;
  private final int rank;
  private final int nRanks;
  private final ConnectionLayout layout;
  private final Chooser chooser;
  private final PlanCache cache = new PlanCache();

  private Planner(
      KernelCommunicator kernels, int rank, int nRanks, ConnectionLayout layout, Chooser chooser) {
    this.kernels = kernels;
    this.rank = rank;
    this.nRanks = nRanks;
    this.layout = layout;
    this.chooser = chooser;
  }

  /**
   * A planner for ranks that are all on the host device of one machine.
   *
   * @param algo what NCCL_ALGO says, or ""
   * @param proto what NCCL_PROTO says, or ""
   */
  public static Planner forHost(
      KernelCommunicator kernels,
      int rank,
      int nRanks,
      ConnectionLayout layout,
      String algo,
      String proto) {
    CostModel costs = new HostCostModel(nRanks, Runtime.getRuntime().availableProcessors());
    return new Planner(kernels, rank, nRanks, layout, new Chooser(costs, algo, proto));
  }

  /** The plan of an operation on the launch's own buffers. */
  @HotPath
  public KernelPlan plan(Func func, long count, DataType type, RedOp op, int root) {
    KernelPlan plan = cache.find(func, count, type, op, root);
    return plan != null ? plan : make(func, count, type, op, root);
  }

  private KernelPlan make(Func func, long count, DataType type, RedOp op, int root) {
    KernelPlan plan =
        func.collective() != null
            ? kernels.prepare(work(func.collective(), count, type, op, root))
            : kernels.prepare(works(func, count * type.bytes(), root));
    cache.put(func, count, type, op, root, plan);
    return plan;
  }

  /** A plan for sends and receives that progress together, each with its own buffer. */
  public KernelPlan plan(List<P2pTask> tasks) {
    List<P2pWork> works = new ArrayList<>();
    for (P2pTask task : tasks) {
      works.add(work(task.sends(), task.peer(), task.buffer(), 0, task.bytes()));
    }
    return kernels.prepare(works);
  }

  private CollectiveWork work(
      Collective collective, long count, DataType type, RedOp op, int root) {
    Choice choice = chooser.choose(collective, wholeBytes(collective, count, type));
    int chunk = chunkBytes(collective, choice, count * type.bytes());
    return new CollectiveWork(
        collective, choice.algorithm(), choice.protocol(), type, op, root, count, 1, chunk);
  }

  private long wholeBytes(Collective collective, long count, DataType type) {
    long bytes = count * type.bytes();
    return switch (collective) {
      case ALL_GATHER, REDUCE_SCATTER -> bytes * nRanks;
      case ALL_REDUCE, BROADCAST, REDUCE -> bytes;
    };
  }

  /** Small enough that hops overlap, large enough that their latency does not show. */
  private int chunkBytes(Collective collective, Choice choice, long bytes) {
    if (choice.protocol() == Protocol.LL) {
      return layout.llSlotBytes() / 2;
    }
    long part = collective == Collective.ALL_REDUCE ? bytes / nRanks : bytes;
    long chunk = part / CHUNKS_A_PART & -LEAST_CHUNK;
    return (int) Math.max(LEAST_CHUNK, Math.min(layout.simpleSlotBytes(), chunk));
  }

  private List<P2pWork> works(Func func, long bytes, int root) {
    List<P2pWork> works = new ArrayList<>();
    switch (func) {
      case SEND -> works.add(work(true, root, null, 0, bytes));
      case RECV -> works.add(work(false, root, null, 0, bytes));
      case ALL_TO_ALL -> {
        for (int distance = 0; distance < nRanks; distance++) {
          int to = (rank + distance) % nRanks;
          int from = (rank - distance + nRanks) % nRanks;
          works.add(work(true, to, null, to * bytes, bytes));
          works.add(work(false, from, null, from * bytes, bytes));
        }
      }
      case GATHER -> {
        works.add(work(true, root, null, 0, bytes));
        for (int from = 0; rank == root && from < nRanks; from++) {
          works.add(work(false, from, null, from * bytes, bytes));
        }
      }
      case SCATTER -> {
        for (int to = 0; rank == root && to < nRanks; to++) {
          works.add(work(true, to, null, to * bytes, bytes));
        }
        works.add(work(false, root, null, 0, bytes));
      }
      default -> throw new IllegalArgumentException(func.label());
    }
    return works;
  }

  private static P2pWork work(
      boolean sends, int peer, DeviceMemory buffer, long offset, long bytes) {
    Protocol protocol = bytes <= LL_SEND_BYTES ? Protocol.LL : Protocol.SIMPLE;
    P2pWork.Kind kind = sends ? P2pWork.Kind.SEND : P2pWork.Kind.RECV;
    return new P2pWork(kind, peer, buffer, offset, bytes, protocol);
  }

  /** What is decided for an operation, as a table to read. */
  public String explain(Func func, long count, DataType type) {
    if (func.collective() == null) {
      return "%s is made of sends and receives: LL up to %d bytes each, else Simple%n"
          .formatted(func.label(), LL_SEND_BYTES);
    }
    return chooser.explain(func.collective(), wholeBytes(func.collective(), count, type));
  }

  /** The algorithm and protocol of an operation, such as "Ring Simple", for tables. */
  public String choice(Func func, long count, DataType type) {
    if (func.collective() == null) {
      return "Pairwise " + (count * type.bytes() <= LL_SEND_BYTES ? "LL" : "Simple");
    }
    Choice choice = chooser.choose(func.collective(), wholeBytes(func.collective(), count, type));
    return choice.algorithm().label() + " " + choice.protocol().label();
  }
}
