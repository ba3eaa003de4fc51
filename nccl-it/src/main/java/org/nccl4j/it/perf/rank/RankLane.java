package org.nccl4j.it.perf.rank;

import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.PreparedCall;

/** One rank: its device, stream, buffers and communicators. Used by one thread. */
final class RankLane implements AutoCloseable {
  private final RankSpec spec;
  private final Device device;
  private final Libnccl nccl;
  private final DeviceStream stream;
  private final RankBuffers buffers;
  private final RankBuffers theirs;
  private final DeviceMemory barrier;
  private final Map<Library, NcclRank> others = new EnumMap<>(Library.class);
  private Communicator communicator;
  private Communicator quantised; // null where that is not measured

  /**
   * A rank that has not joined yet.
   *
   * @param spec with this rank
   * @param nccl to compare with, or null
   */
  RankLane(RankSpec spec, Libnccl nccl) {
    this.spec = spec;
    this.nccl = nccl;
    device = spec.device(spec.rank());
    makeCurrent();
    stream =
        spec.urgent() && device instanceof CudaDevice cuda
            ? cuda.createPriorityStream()
            : device.createStream();
    barrier = device.allocate(DataType.INT32.bytes());
    boolean shared = nccl != null && spec.registration() == RegistrationMode.NOT;
    buffers = shared ? new RankBuffers(device, spec, nccl) : new RankBuffers(device, spec);
    theirs = shared || nccl == null ? buffers : new RankBuffers(device, spec, nccl);
  }

  /** libnccl works on the device of the thread's context; ours does not mind. */
  void makeCurrent() {
    if (device instanceof CudaDevice cuda) {
      cuda.makeCurrent();
    }
  }

  int rank() {
    return spec.rank();
  }

  Device device() {
    return device;
  }

  DeviceStream stream() {
    return stream;
  }

  RankBuffers buffers() {
    return buffers;
  }

  /**
   * Returns the buffers that a library works on: one pair for all where ours is not registered;
   * otherwise each has its own, so that both can register theirs.
   */
  RankBuffers buffers(Library library) {
    return library.isOurs() ? buffers : theirs;
  }

  Libnccl nccl() {
    return nccl;
  }

  RankSpec spec() {
    return spec;
  }

  Communicator communicator() {
    return communicator;
  }

  void join(Communicator joined) {
    communicator = joined;
  }

  /** Registers the buffers as the rank was told to; collective, and in a group of all lanes. */
  void register() {
    for (DeviceMemory buffer : List.of(buffers.first(), buffers.second())) {
      switch (spec.registration()) {
        case LOCALLY -> communicator.register(buffer);
        case WINDOWS -> communicator.registerWindow(buffer);
        case NOT -> {}
      }
    }
  }

  void join(Library library, String uniqueId) {
    makeCurrent();
    others.put(library, NcclRank.join(this, uniqueId, library == Library.LIBNCCL_WINDOWS));
  }

  /** Has the operations of {@link Library#QUANTISED} travel quantised. */
  void quantise(DataType format, int block) {
    quantised = communicator.withOptions(CallOptions.defaults().withQuantisation(format, block));
  }

  /** The communicator whose choices are explained. */
  Communicator explained() {
    return quantised == null ? communicator : quantised;
  }

  /** A cell's operation by a library; the same object as long as the cell is the same. */
  PreparedCall operation(Cell cell, Library library) {
    return switch (library) {
      case OURS -> buffers.operation(communicator, stream, cell);
      case QUANTISED -> buffers.unprepared(quantised, stream, cell);
      default -> others.get(library).operation(cell);
    };
  }

  /** Puts a small all-reduce into the stream. */
  void launchBarrier() {
    communicator.allReduce(barrier, barrier, 1, DataType.INT32, RedOp.SUM, stream);
  }

  @Override
  public void close() {
    makeCurrent();
    others.values().forEach(NcclRank::close);
    if (communicator != null) {
      communicator.close();
    }
    stream.close();
    barrier.close();
    buffers.close();
    if (theirs != buffers) {
      theirs.close();
    }
  }
}
