package org.nccl4j.api;

import java.util.Arrays;
import java.util.function.LongConsumer;
import java.util.function.ObjIntConsumer;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/**
 * Operations in which every rank's part has its own size, as groups of sends and receives or of
 * reductions.
 */
final class VectorCollectives {
  /** A count and an offset together have less than 2^63 bytes. */
  private static final long MOST = Long.MAX_VALUE / 16;

  private final Communicator comm;

  VectorCollectives(Communicator comm) {
    this.comm = comm;
  }

  /** The number of elements of each rank and the offset of the first one. */
  private record Parts(String name, long[] counts, long[] offsets) {
    /**
     * The parts of a call.
     *
     * @param offsets null for contiguous parts
     */
    static Parts of(String name, long[] counts, long[] offsets) {
      return offsets == null ? packed(name, counts) : new Parts(name, counts, offsets);
    }

    static Parts of(long[] counts, long[] offsets) {
      return of("counts", counts, offsets);
    }

    private static Parts packed(String name, long[] counts) {
      long[] offsets = new long[counts == null ? 0 : counts.length];
      for (int r = 1; r < offsets.length; r++) {
        offsets[r] = offsets[r - 1] + counts[r - 1];
      }
      return new Parts(name, counts, offsets);
    }
  }

  private DeviceMemory part(
      String operation, DeviceMemory memory, Parts parts, int rank, DataType type) {
    long bytes = parts.counts[rank] * type.bytes();
    long offset = parts.offsets[rank] * type.bytes();
    if (memory == null) {
      throw wrong(
          operation,
          ErrorId.BUFFER,
          "the buffer of %s is null".formatted(parts.name),
          "pass memory of the communicator's device");
    }
    if (offset + bytes > memory.size()) {
      throw wrong(
          operation,
          ErrorId.BUFFER,
          "%s: for rank %d, %d elements at offset %d exceed the buffer of %d bytes"
              .formatted(parts.name, rank, parts.counts[rank], parts.offsets[rank], memory.size()),
          "pass a larger buffer, smaller counts or other offsets");
    }
    return memory.slice(offset, bytes);
  }

  private void check(String operation, Parts parts, DataType type) {
    if (type == null) {
      throw wrong(operation, ErrorId.TYPE, "type is null", "pass one");
    }
    check(operation, parts.name, parts.counts);
    check(operation, "offsets of " + parts.name, parts.offsets);
  }

  private void check(String operation, String name, long[] values) {
    if (values == null || values.length != comm.state().nRanks()) {
      throw wrong(
          operation,
          ErrorId.COUNT,
          "%s has %s entries for %d ranks"
              .formatted(name, values == null ? "no" : values.length, comm.state().nRanks()),
          "pass one for each rank");
    }
    for (int rank = 0; rank < values.length; rank++) {
      if (values[rank] < 0 || values[rank] > MOST) {
        throw wrong(
            operation,
            ErrorId.COUNT,
            "%s has %d for rank %d".formatted(name, values[rank], rank),
            "pass 0 to %d".formatted(MOST));
      }
    }
  }

  /** Refuses overlaps of what all ranks' parts are gathered into, where the user asks for that. */
  private void checkGathered(
      String operation,
      DeviceMemory send,
      long mine,
      DeviceMemory recv,
      Parts parts,
      DataType type) {
    if (comm.dispatcher().checksOverlaps()) {
      PartRanges ranges = new PartRanges(send, recv, type);
      if (mine > 0) {
        ranges.send(send.slice(0, mine * type.bytes()), comm.state().rank());
      }
      addAll(operation, ranges::receive, recv, parts, type);
      ranges.allowInPlace(comm.state().rank());
      refuseOverlap(operation, ranges);
    }
  }

  /** Refuses overlaps of what all ranks' parts are scattered from, where the user asks for that. */
  private void checkScattered(
      String operation,
      DeviceMemory send,
      Parts parts,
      DeviceMemory recv,
      long mine,
      DataType type) {
    if (comm.dispatcher().checksOverlaps()) {
      PartRanges ranges = new PartRanges(send, recv, type);
      addAll(operation, ranges::send, send, parts, type);
      if (mine > 0) {
        ranges.receive(recv.slice(0, mine * type.bytes()), comm.state().rank());
      }
      ranges.allowInPlace(comm.state().rank());
      refuseOverlap(operation, ranges);
    }
  }

  private void checkExchanged(
      String operation,
      DeviceMemory send,
      Parts sends,
      DeviceMemory recv,
      Parts recvs,
      DataType type) {
    if (comm.dispatcher().checksOverlaps()) {
      PartRanges ranges = new PartRanges(send, recv, type);
      addAll(operation, ranges::send, send, sends, type);
      addAll(operation, ranges::receive, recv, recvs, type);
      refuseOverlap(operation, ranges);
    }
  }

  private void addAll(
      String operation,
      ObjIntConsumer<DeviceMemory> to,
      DeviceMemory memory,
      Parts parts,
      DataType type) {
    for (int rank = 0; rank < parts.counts.length; rank++) {
      if (parts.counts[rank] > 0) {
        to.accept(part(operation, memory, parts, rank, type), rank);
      }
    }
  }

  private void refuseOverlap(String operation, PartRanges ranges) {
    String found = ranges.overlap();
    if (!found.isEmpty()) {
      throw wrong(
          operation,
          ErrorId.BUFFER,
          found,
          "pass counts, offsets and memory whose parts do not overlap, or that are in place as the"
              + " operation defines it");
    }
  }

  private InvalidArgumentException wrong(
      String operation, ErrorId id, String problem, String remedy) {
    return new InvalidArgumentException(
        id,
        "%s on rank %d of communicator %s: %s"
            .formatted(operation, comm.state().rank(), comm.state().name(), problem),
        remedy);
  }

  void allGatherV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      long[] offsets,
      DataType type,
      DeviceStream stream) {
    String name = "all_gather_v";
    Parts parts = Parts.of(counts, offsets);
    GroupScope.run(
        () -> {
          check(name, parts, type);
          gather(name, send, recv, parts, type, stream);
        });
  }

  private void gather(
      String name,
      DeviceMemory send,
      DeviceMemory recv,
      Parts parts,
      DataType type,
      DeviceStream stream) {
    long mine = ownPart(name, "send", send, parts, type);
    checkGathered(name, send, mine, recv, parts, type);
    for (int distance = 0; distance < comm.state().nRanks(); distance++) {
      int to = (comm.state().rank() + distance) % comm.state().nRanks();
      int from = (comm.state().rank() - distance + comm.state().nRanks()) % comm.state().nRanks();
      send(send, mine, type, to, stream);
      recv(name, recv, parts, from, type, stream);
    }
  }

  /** Returns the elements of this rank's part, which a buffer of this part alone must hold. */
  private long ownPart(
      String operation, String buffer, DeviceMemory memory, Parts parts, DataType type) {
    long mine = parts.counts[comm.state().rank()];
    if (mine > 0 && (memory == null || memory.size() / type.bytes() < mine)) {
      throw wrong(
          operation,
          ErrorId.BUFFER,
          memory == null
              ? "the %s buffer is null".formatted(buffer)
              : "the %s buffer has fewer than the %d elements of %s"
                  .formatted(buffer, mine, parts.name),
          "pass a larger buffer or smaller counts");
    }
    return mine;
  }

  void gatherV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      long[] offsets,
      DataType type,
      int root,
      DeviceStream stream) {
    String name = "gather_v";
    Parts parts = Parts.of(counts, offsets);
    GroupScope.run(
        () -> {
          check(name, parts, type);
          comm.dispatcher().requireRoot(name, root);
          long mine = ownPart(name, "send", send, parts, type);
          if (isRoot(root)) {
            checkGathered(name, send, mine, recv, parts, type);
          }
          send(send, mine, type, root, stream);
          for (int from = 0; isRoot(root) && from < comm.state().nRanks(); from++) {
            recv(name, recv, parts, from, type, stream);
          }
        });
  }

  void scatterV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      long[] offsets,
      DataType type,
      int root,
      DeviceStream stream) {
    String name = "scatter_v";
    Parts parts = Parts.of(counts, offsets);
    GroupScope.run(
        () -> {
          check(name, parts, type);
          comm.dispatcher().requireRoot(name, root);
          long mine = ownPart(name, "recv", recv, parts, type);
          if (isRoot(root)) {
            checkScattered(name, send, parts, recv, mine, type);
          }
          for (int to = 0; isRoot(root) && to < comm.state().nRanks(); to++) {
            send(name, send, parts, to, type, stream);
          }
          if (mine > 0) {
            comm.recv(recv, mine, type, root, stream);
          }
        });
  }

  private boolean isRoot(int root) {
    return comm.state().rank() == root;
  }

  void allToAllV(
      DeviceMemory send,
      long[] sendCounts,
      long[] sendOffsets,
      DeviceMemory recv,
      long[] recvCounts,
      long[] recvOffsets,
      DataType type,
      DeviceStream stream) {
    String name = "all_to_all_v";
    Parts sends = Parts.of("sendCounts", sendCounts, sendOffsets);
    Parts recvs = Parts.of("recvCounts", recvCounts, recvOffsets);
    GroupScope.run(
        () -> {
          check(name, sends, type);
          check(name, recvs, type);
          exchange(name, send, sends, recv, recvs, type, stream);
        });
  }

  private void exchange(
      String name,
      DeviceMemory send,
      Parts sends,
      DeviceMemory recv,
      Parts recvs,
      DataType type,
      DeviceStream stream) {
    int rank = comm.state().rank();
    if (sends.counts[rank] != recvs.counts[rank]) {
      throw wrong(
          name,
          ErrorId.COUNT,
          "the rank sends %d elements to itself and receives %d"
              .formatted(sends.counts[rank], recvs.counts[rank]),
          "pass the same count for this rank in both");
    }
    checkExchanged(name, send, sends, recv, recvs, type);
    for (int distance = 0; distance < comm.state().nRanks(); distance++) {
      int to = (rank + distance) % comm.state().nRanks();
      int from = (rank - distance + comm.state().nRanks()) % comm.state().nRanks();
      send(name, send, sends, to, type, stream);
      recv(name, recv, recvs, from, type, stream);
    }
  }

  private void send(
      String name, DeviceMemory buffer, Parts parts, int to, DataType type, DeviceStream stream) {
    if (parts.counts[to] > 0) {
      comm.send(part(name, buffer, parts, to, type), parts.counts[to], type, to, stream);
    }
  }

  private void send(DeviceMemory buffer, long count, DataType type, int to, DeviceStream stream) {
    if (count > 0) {
      comm.send(buffer, count, type, to, stream);
    }
  }

  private void recv(
      String name, DeviceMemory buffer, Parts parts, int from, DataType type, DeviceStream stream) {
    if (parts.counts[from] > 0) {
      comm.recv(part(name, buffer, parts, from, type), parts.counts[from], type, from, stream);
    }
  }

  /** A reduction to a root of its part. */
  private interface RootedReduction {
    void call(DeviceMemory part, long count, int root);
  }

  void reduceScatterV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      DataType type,
      RedOp op,
      DeviceStream stream) {
    scatter(
        send,
        recv,
        counts,
        type,
        count -> comm.reduceScatter(send, recv, count, type, op, stream),
        (part, count, root) -> comm.reduce(part, recv, count, type, op, root, stream));
  }

  void reduceScatterV(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      DataType type,
      ReductionOperator op,
      DeviceStream stream) {
    scatter(
        send,
        recv,
        counts,
        type,
        count -> comm.reduceScatter(send, recv, count, type, op, stream),
        (part, count, root) -> comm.reduce(part, recv, count, type, op, root, stream));
  }

  /** Calls one reduce-scatter if all counts are equal, else a reduction for each part. */
  private void scatter(
      DeviceMemory send,
      DeviceMemory recv,
      long[] counts,
      DataType type,
      LongConsumer equal,
      RootedReduction each) {
    String name = "reduce_scatter_v";
    Parts parts = Parts.of(counts, null);
    GroupScope.run(
        () -> {
          check(name, parts, type);
          long mine = ownPart(name, "recv", recv, parts, type);
          if (Arrays.stream(counts).allMatch(count -> count == counts[0])) {
            equal.accept(counts[0]);
            return;
          }
          checkScattered(name, send, parts, recv, mine, type);
          for (int root = 0; root < comm.state().nRanks(); root++) {
            if (counts[root] > 0) {
              each.call(part(name, send, parts, root, type), counts[root], root);
            }
          }
        });
  }
}
