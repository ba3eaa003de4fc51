package org.nccl4j.device.cuda.plan;

import java.util.List;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.host.RegisteredMemory;

/**
 * Sends and receives of which proxies carry some: those whose buffers are registered use them
 * instead of slots. Each launch decides, since registrations begin and end, and plans know only
 * some of the buffers. A graph keeps the decision of its capture: if a registration has ended by
 * then, the proxy copies the data into slots itself. Owned by the thread that launches.
 */
final class ExposedKernelPlan extends CudaKernelPlan {
  private final P2pPlans plans;
  private final List<Carried> works;

  /** The registrations at the last decision, as {@link RegisteredMemory#changes}; at first none. */
  private long seen = -1;

  private long lastSend;
  private long lastRecv;

  /**
   * A work whose proxy can use a buffer.
   *
   * @param number among all works, less than {@link KernelLayout#EXPOSED_WORKS}
   */
  record Carried(int number, MessageGroups.Place place, long bytes) {
    long address(long send, long recv) {
      return switch (place.base()) {
        case NONE -> place.address();
        case SEND -> send + place.address();
        case RECV -> recv + place.address();
      };
    }
  }

  /** A plan with such works; the other arguments are those of {@link CudaKernelPlan}. */
  ExposedKernelPlan(
      P2pPlans plans,
      List<Carried> works,
      Offheap arguments,
      PlanTables.Table table,
      Launch launch) {
    super(launch.owner(), arguments, table, launch.function(), launch.shape(), launch.needs());
    this.plans = plans;
    this.works = works;
  }

  /** The kernel, and how it is launched. */
  record Launch(PlanContext owner, long function, Shape shape, Needs needs) {}

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    long now = RegisteredMemory.changes();
    if (now != seen || send != lastSend || recv != lastRecv) {
      decide(send, recv);
      seen = now;
      lastSend = send;
      lastRecv = recv;
    }
    super.launch(send, recv, stream);
  }

  private void decide(long send, long recv) {
    for (int word = 0; word < KernelLayout.EXPOSED_WORKS / Long.SIZE; word++) {
      arguments().putLong(KernelLayout.EXPOSED + word * Long.BYTES, 0);
    }
    for (int i = 0; i < works.size(); i++) {
      Carried work = works.get(i);
      if (RegisteredMemory.serves(owner().gpu().device(), work.address(send, recv), work.bytes())) {
        int word = KernelLayout.EXPOSED + work.number() / Long.SIZE * Long.BYTES;
        arguments().putLong(word, arguments().getLong(word) | 1L << work.number());
        plans.exposes();
      }
    }
  }
}
