package org.nccl4j.it.perf.workload;

import org.nccl4j.api.Communicator;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Makes a workload's operation out of calls of the API. */
public final class PreparedCalls {
  private PreparedCalls() {}

  /** The operation, with all that it needs found beforehand. */
  public static PreparedCall of(Workload workload, Call call) {
    return switch (workload) {
      case ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL -> unrooted(workload, call);
      case BROADCAST, REDUCE, GATHER, SCATTER -> rooted(workload, call);
      case ALL_TO_ALL_V -> variable(call);
      case SEND_RECV -> toNext(call);
      case HYPERCUBE -> new Hypercube(call);
    };
  }

  private static PreparedCall unrooted(Workload workload, Call call) {
    Communicator communicator = call.communicator();
    DeviceStream stream = call.stream();
    DeviceMemory send = call.buffers().send();
    DeviceMemory recv = call.buffers().recv();
    DataType type = call.buffers().type();
    long count = call.layout().count();
    RedOp op = call.op();
    return switch (workload) {
      case ALL_REDUCE -> () -> communicator.allReduce(send, recv, count, type, op, stream);
      case REDUCE_SCATTER -> () -> communicator.reduceScatter(send, recv, count, type, op, stream);
      case ALL_GATHER -> () -> communicator.allGather(send, recv, count, type, stream);
      default -> () -> communicator.allToAll(send, recv, count, type, stream);
    };
  }

  private static PreparedCall rooted(Workload workload, Call call) {
    Communicator communicator = call.communicator();
    DeviceStream stream = call.stream();
    DeviceMemory send = call.buffers().send();
    DeviceMemory recv = call.buffers().recv();
    DataType type = call.buffers().type();
    long count = call.layout().count();
    RedOp op = call.op();
    int root = call.place().root();
    return switch (workload) {
      case BROADCAST -> () -> communicator.broadcast(send, recv, count, type, root, stream);
      case REDUCE -> () -> communicator.reduce(send, recv, count, type, op, root, stream);
      case GATHER -> () -> communicator.gather(send, recv, count, type, root, stream);
      default -> () -> communicator.scatter(send, recv, count, type, root, stream);
    };
  }

  private static PreparedCall toNext(Call call) {
    Communicator communicator = call.communicator();
    DeviceStream stream = call.stream();
    Buffers buffers = call.buffers();
    long count = call.layout().count();
    int nRanks = call.place().nRanks();
    int next = (call.place().rank() + 1) % nRanks;
    int previous = (call.place().rank() + nRanks - 1) % nRanks;
    return () -> {
      Group.start();
      communicator.send(buffers.send(), count, buffers.type(), next, stream);
      communicator.recv(buffers.recv(), count, buffers.type(), previous, stream);
      Group.end();
    };
  }

  private static PreparedCall variable(Call call) {
    Communicator communicator = call.communicator();
    DeviceStream stream = call.stream();
    DataType type = call.buffers().type();
    int rank = call.place().rank();
    int nRanks = call.place().nRanks();
    long mean = call.layout().count();
    DeviceMemory[] send = new DeviceMemory[nRanks];
    DeviceMemory[] recv = new DeviceMemory[nRanks];
    long[] sendCount = new long[nRanks];
    long[] recvCount = new long[nRanks];
    for (int peer = 0; peer < nRanks; peer++) {
      sendCount[peer] = VariableCounts.between(rank, peer, nRanks, mean);
      recvCount[peer] = VariableCounts.between(peer, rank, nRanks, mean);
      send[peer] =
          call.buffers()
              .sendPart(VariableCounts.sendOffset(rank, peer, nRanks, mean), sendCount[peer]);
      recv[peer] =
          call.buffers()
              .recvPart(VariableCounts.recvOffset(peer, rank, nRanks, mean), recvCount[peer]);
    }
    return () -> {
      Group.start();
      for (int peer = 0; peer < nRanks; peer++) {
        communicator.send(send[peer], sendCount[peer], type, peer, stream);
        communicator.recv(recv[peer], recvCount[peer], type, peer, stream);
      }
      Group.end();
    };
  }
}
