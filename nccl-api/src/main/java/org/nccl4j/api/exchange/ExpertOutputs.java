package org.nccl4j.api.exchange;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * A rank's memory of the outputs of dispatches by sends and receives, as {@link ExpertReturns}
 * divides it. It grows when a dispatch has more rows. All ranks find in the tables which ranks need
 * more, and tell each other whether they have it: all go on, or none does.
 */
final class ExpertOutputs implements AutoCloseable {
  private static final String REMEDY =
      "free memory on rank %d, dispatch fewer tokens at once, or route fewer of them to its experts";

  private final ExpertSizes sizes;
  private final int rank;
  private final String where;
  private final Device device;
  private final ExpertTables tables;

  /** Rows that each rank has room for, the same on all ranks. */
  private long[] room;

  private DeviceMemory memory;

  /** To free these would wait for all kernels on a GPU, so that they remain until the end. */
  private final List<DeviceMemory> outgrown = new ArrayList<>();

  /**
   * Outputs of one exchange.
   *
   * @param where the begin of errors: the call, rank and communicator
   * @param memory of {@link #firstBytes}
   */
  ExpertOutputs(
      ExpertSizes sizes,
      int rank,
      String where,
      Device device,
      ExpertTables tables,
      DeviceMemory memory) {
    this.sizes = sizes;
    this.rank = rank;
    this.where = where;
    this.device = device;
    this.tables = tables;
    this.memory = memory;
    room = new long[sizes.nRanks()];
    Arrays.fill(room, firstRows(sizes));
  }

  /** Rows for as many outputs of other ranks as a rank has entries. */
  private static long firstRows(ExpertSizes sizes) {
    return 2 * sizes.entries();
  }

  /** Bytes of the memory at first. */
  static long firstBytes(ExpertSizes sizes) {
    return firstRows(sizes) * sizes.rowBytes();
  }

  /** The memory; valid until the next {@link #reserve}. */
  DeviceMemory memory() {
    return memory;
  }

  /**
   * Makes room for the outputs of a dispatch. Waits for the other ranks if one of them needs more.
   *
   * @param rows that each rank has, the same on all ranks
   * @throws NcclException on all ranks, if one of them lacks memory; then nothing has changed
   */
  void reserve(long[] rows, DeviceStream stream) {
    long[] next = room.clone();
    for (int each = 0; each < next.length; each++) {
      if (rows[each] > room[each]) {
        next[each] = Math.max(rows[each], Math.min(sizes.entries() + sizes.rows(), 2 * room[each]));
      }
    }
    if (Arrays.equals(room, next)) {
      return;
    }
    DeviceMemory larger = null;
    NcclException lack = null;
    if (next[rank] > room[rank]) {
      try {
        larger = device.allocate(next[rank] * sizes.rowBytes());
      } catch (NcclException e) {
        lack = e;
      }
    }
    try {
      check(tables.gather(lack == null ? 0 : next[rank], stream), lack);
    } catch (RuntimeException e) {
      if (larger != null) {
        larger.close();
      }
      throw e;
    }
    room = next;
    if (larger != null) {
      outgrown.add(memory);
      memory = larger;
    }
  }

  /** Throws if a rank lacks memory for so many rows. */
  private void check(long[] lacking, NcclException lack) {
    for (int each = 0; each < lacking.length; each++) {
      if (lacking[each] > 0) {
        String problem =
            where
                + "rank %d has no memory for %d outputs of %d bytes"
                    .formatted(each, lacking[each], sizes.rowBytes());
        String remedy = REMEDY.formatted(each);
        throw each == rank
            ? new SystemErrorException(
                ErrorId.MEMORY, problem + ": " + lack.problem(), remedy, lack)
            : new RemoteException(ErrorId.RANK_FAILED, problem, remedy, lack);
      }
    }
  }

  @Override
  public void close() {
    memory.close();
    outgrown.forEach(DeviceMemory::close);
  }
}
