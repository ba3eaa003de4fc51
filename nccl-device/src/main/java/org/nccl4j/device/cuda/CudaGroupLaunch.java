package org.nccl4j.device.cuda;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.WorkGroup;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.kernel.KernelCommunicator.GroupLaunch;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * Operations of a group in as few kernels as possible. An operation begins another kernel if it is
 * in another stream, or if it touches what one before it in the kernel writes, or writes what that
 * one touches: operations of a group on one communicator take effect in their order. Other ranks
 * need not begin a kernel there too.
 */
final class CudaGroupLaunch implements GroupLaunch {
  private final Kernels kernels;
  private final List<GpuStream> streams = new ArrayList<>();

  /** Send and receive buffers in turn. */
  private final List<DeviceMemory> buffers = new ArrayList<>();

  private long[] sends = new long[16];
  private long[] recvs = new long[16];
  private long[] sendEnds = new long[16];
  private long[] recvEnds = new long[16];

  /** Null before the first operation. */
  private WorkGroup works;

  private volatile boolean used;

  /** The communicator whose kernels these are. */
  interface Kernels {
    /** Returns a plan of this communicator; throws if it is another's. */
    CudaPlan own(KernelPlan plan);

    /** Returns an open stream of this device; throws if it is another's. */
    GpuStream own(DeviceStream stream);

    /**
     * Launches a kernel of several operations, in whose arguments their buffers are.
     *
     * @param buffers send and receive buffers of operations in turn
     * @param from the first operation of the kernel
     * @param to behind the last
     * @throws org.nccl4j.device.InvalidUsageException if one of their buffers has been freed
     */
    void launchTogether(
        CudaPlan plan, GpuStream into, List<DeviceMemory> buffers, int from, int to);
  }

  CudaGroupLaunch(Kernels kernels) {
    this.kernels = kernels;
  }

  @Override
  public boolean add(KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    CudaPlan own = kernels.own(plan);
    WorkGroup group = own.group();
    if (group == null || (works != null && works != group)) {
      return false;
    }
    own.check(send, recv);
    GpuStream into = kernels.own(stream);
    if (!group.add(own)) {
      return false;
    }
    works = group;
    int at = size();
    if (at == sends.length) {
      sends = Arrays.copyOf(sends, 2 * at);
      recvs = Arrays.copyOf(recvs, 2 * at);
      sendEnds = Arrays.copyOf(sendEnds, 2 * at);
      recvEnds = Arrays.copyOf(recvEnds, 2 * at);
    }
    sends[at] = address(send);
    recvs[at] = address(recv);
    sendEnds[at] = sends[at] + own.sendBytes();
    recvEnds[at] = recvs[at] + own.recvBytes();
    streams.add(into);
    buffers.add(send);
    buffers.add(recv);
    return true;
  }

  /** Only the root of some operations has both buffers. */
  private static long address(DeviceMemory buffer) {
    return buffer == null ? 0 : buffer.address();
  }

  @Override
  public int size() {
    return streams.size();
  }

  /** True if operations have been launched together. Any thread. */
  boolean isUsed() {
    return used;
  }

  @Override
  public KernelPlan launch(int from, int to) {
    used = true;
    CudaPlan last = null;
    for (int begin = from; begin < to; ) {
      int end = begin + 1;
      while (end < to && streams.get(end) == streams.get(begin) && isApart(end, begin)) {
        end++;
      }
      last = works.plan(begin, end, sends, recvs);
      kernels.launchTogether(last, streams.get(begin), buffers, begin, end);
      begin = end;
    }
    return last;
  }

  /** True if an operation may run at the same time as those from another one on to it. */
  private boolean isApart(int operation, int first) {
    for (int other = first; other < operation; other++) {
      if (overlap(recvs, recvEnds, operation, recvs, recvEnds, other)
          || overlap(recvs, recvEnds, operation, sends, sendEnds, other)
          || overlap(sends, sendEnds, operation, recvs, recvEnds, other)) {
        return false;
      }
    }
    return true;
  }

  private static boolean overlap(long[] a, long[] aEnds, int i, long[] b, long[] bEnds, int j) {
    return a[i] < bEnds[j] && b[j] < aEnds[i];
  }

  @Override
  public void clear() {
    streams.clear();
    buffers.clear();
    if (works != null) {
      works.clear();
      works = null;
    }
  }
}
