package org.nccl4j.device.cuda;

import org.nccl4j.device.kernel.DirectWork;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;

/**
 * An operation that only moves data, by copy engines. In round d every rank writes to the d-th
 * after it; between rounds all meet, since copies of different GPUs that drift apart collide at the
 * same target. The ranks meet by kernels, whose waits have a deadline, and everything can be
 * captured.
 */
final class CopyPlan implements CudaPlan {
  private final CudaKernelCommunicator owner;
  private final DirectWork work;
  private final CudaKernelPlan meeting;
  private final CudaKernelPlan.Needs needs;
  private final int n;
  private final int rank;
  private final long bytes;
  private final long stride;
  private final long sendFlat;
  private final long recvFlat;

  CopyPlan(
      CudaKernelCommunicator owner,
      DirectWork work,
      SymmetricSpace space,
      CudaKernelPlan meeting,
      CudaKernelPlan.Needs needs) {
    this.owner = owner;
    this.work = work;
    this.meeting = meeting;
    this.needs = needs;
    this.n = space.size();
    this.rank = space.place();
    this.bytes = work.count() * work.type().bytes();
    this.stride = space.stride();
    this.sendFlat = flat(work.send());
    this.recvFlat = flat(work.recv());
  }

  private static long flat(WindowView window) {
    return window == null ? 0 : window.peers().get(0).address() - window.address();
  }

  @Override
  public CudaKernelCommunicator owner() {
    return owner;
  }

  @Override
  public boolean isEmpty() {
    return bytes == 0;
  }

  @Override
  public long sendBytes() {
    return needs.sendBytes();
  }

  @Override
  public long recvBytes() {
    return needs.recvBytes();
  }

  @Override
  public void launch(long send, long recv, CudaStream stream) {
    meeting.launch(0, 0, stream);
    boolean root = rank == work.root();
    for (int distance = 0; distance < n; distance++) {
      int other = (rank + distance) % n;
      if (distance > 1) {
        meeting.launch(0, 0, stream);
      }
      switch (work.operation()) {
        case ALL_GATHER -> copy(peer(recv, other) + rank * bytes, send, other, stream);
        case ALL_TO_ALL ->
            copy(peer(recv, other) + rank * bytes, send + other * bytes, other, stream);
        case BROADCAST -> {
          if (root) {
            copy(peer(recv, other), send, other, stream);
          }
        }
        case SCATTER -> {
          if (root) {
            copy(peer(recv, other), send + other * bytes, other, stream);
          }
        }
        case GATHER -> {
          if (root) {
            long source = send + sendFlat + other * stride;
            long target = recv + other * bytes;
            copy(target, other == rank ? send : source, stream);
          }
        }
        case ALL_REDUCE, REDUCE, REDUCE_SCATTER ->
            throw new IllegalStateException(work.operation() + " by copies");
      }
    }
    meeting.launch(0, 0, stream);
  }

  private long peer(long recv, int other) {
    return recv + recvFlat + other * stride;
  }

  /** To another rank, or to the own buffer by the address that the user has for it. */
  private void copy(long target, long source, int other, CudaStream stream) {
    copy(other == rank ? target - recvFlat - rank * stride : target, source, stream);
  }

  private void copy(long target, long source, CudaStream stream) {
    if (target != source) {
      DriverLibrary.copyAsync(target, source, bytes, stream.handle(), owner.device());
    }
  }
}
