package org.nccl4j.it.api;

import java.nio.ByteBuffer;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * All collectives and a send with a receive, each once, by one rank on the host, with buffers of
 * one kind. The sizes and kinds decide how data travel: through slots, exposed to a rank of the
 * same process, mapped by another process or read by process_vm_readv, and between windows.
 */
final class EveryCall implements AutoCloseable {
  /** The calls of {@link #run}. */
  static final int CALLS = 12;

  /** Memory of the buffers. */
  enum Kind {
    /** Of the device: another process maps it, if it is large enough. */
    DEVICE,
    /** A direct buffer of Java's: another process reads it, or it goes through slots. */
    WRAPPED,
    /** A registered window. */
    WINDOW
  }

  private final Communicator comm;
  private final DeviceStream stream;
  private final int count;
  private final DeviceMemory send;
  private final DeviceMemory recv;
  private final Window[] windows;

  /**
   * Buffers of a rank.
   *
   * @param count float32 of a call, or of each rank's part
   */
  EveryCall(Communicator comm, DeviceStream stream, Kind kind, int count) {
    this.comm = comm;
    this.stream = stream;
    this.count = count;
    this.send = memory(kind, comm.nRanks() * count);
    this.recv = memory(kind, comm.nRanks() * count);
    windows =
        kind == Kind.WINDOW
            ? new Window[] {comm.registerWindow(send), comm.registerWindow(recv)}
            : new Window[0];
  }

  private static DeviceMemory memory(Kind kind, int floats) {
    int bytes = floats * Float.BYTES;
    return switch (kind) {
      case DEVICE -> Devices.host().allocate(bytes);
      case WRAPPED -> Devices.wrap(ByteBuffer.allocateDirect(bytes));
      case WINDOW -> Devices.host().memAlloc(bytes);
    };
  }

  /** Makes all calls, each with its end. */
  void run() {
    for (int call = 0; call < CALLS; call++) {
      run(call);
    }
  }

  /** Makes a call some times, or for {@link #CALLS} all calls by turns. */
  void run(int call, int turns) {
    for (int turn = 0; turn < turns; turn++) {
      if (call < CALLS) {
        run(call);
      } else {
        run();
      }
    }
  }

  /** Makes a call and waits for its end. */
  void run(int call) {
    DataType type = DataType.FLOAT32;
    switch (call) {
      case 0 -> comm.allReduce(send, recv, count, type, RedOp.SUM, stream);
      case 1 -> comm.allReduce(recv, recv, count, type, RedOp.MAX, stream);
      case 2 -> comm.broadcast(send, recv, count, type, 0, stream);
      case 3 -> comm.broadcast(recv, recv, count, type, 1, stream);
      case 4 -> comm.reduce(send, recv, count, type, RedOp.SUM, 0, stream);
      case 5 -> comm.reduce(recv, recv, count, type, RedOp.MAX, 1, stream);
      case 6 -> comm.allGather(send, recv, count, type, stream);
      case 7 -> comm.reduceScatter(send, recv, count, type, RedOp.SUM, stream);
      case 8 -> comm.allToAll(send, recv, count, type, stream);
      case 9 -> comm.gather(send, recv, count, type, 0, stream);
      case 10 -> comm.scatter(send, recv, count, type, 1, stream);
      default -> sendAndReceive(type);
    }
    stream.synchronize();
  }

  private void sendAndReceive(DataType type) {
    Group.start();
    int ranks = comm.nRanks();
    comm.send(send, count, type, (comm.rank() + 1) % ranks, stream);
    comm.recv(recv, count, type, (comm.rank() + ranks - 1) % ranks, stream);
    Group.end();
  }

  @Override
  public void close() {
    for (Window window : windows) {
      comm.deregisterWindowOnAllRanks(window);
    }
    send.close();
    recv.close();
  }
}
