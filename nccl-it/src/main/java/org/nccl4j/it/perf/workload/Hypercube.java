package org.nccl4j.it.perf.workload;

import org.nccl4j.api.Group;
import org.nccl4j.device.DeviceMemory;

/**
 * All-gather by doubling: in step k a rank exchanges 2^k parts with the rank that differs in bit k.
 */
final class Hypercube implements PreparedCall {
  private final Call call;
  private final int steps;
  private final DeviceMemory[] send;
  private final DeviceMemory[] recv;
  private final DeviceMemory mine;

  Hypercube(Call call) {
    this.call = call;
    steps = Integer.numberOfTrailingZeros(call.place().nRanks());
    send = new DeviceMemory[steps];
    recv = new DeviceMemory[steps];
    int rank = call.place().rank();
    long count = call.layout().count();
    mine = call.buffers().recvPart(rank * count, count);
    for (int step = 0; step < steps; step++) {
      int size = 1 << step;
      int first = rank & -size;
      send[step] = call.buffers().recvPart(first * count, count * size);
      recv[step] = call.buffers().recvPart((first ^ size) * count, count * size);
    }
  }

  @Override
  public void launch() {
    if (!call.inPlace()) {
      call.stream().copy(call.buffers().send(), mine);
    }
    for (int step = 0; step < steps; step++) {
      int peer = call.place().rank() ^ (1 << step);
      long count = call.layout().count() << step;
      Group.start();
      call.communicator().send(send[step], count, call.buffers().type(), peer, call.stream());
      call.communicator().recv(recv[step], count, call.buffers().type(), peer, call.stream());
      Group.end();
    }
  }
}
