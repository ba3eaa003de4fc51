package org.nccl4j.it.perf.nccl;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.it.perf.nccl.bind.NcclFunctions;
import org.nccl4j.it.perf.workload.Buffers;
import org.nccl4j.it.perf.workload.Cell;

/**
 * The only caller of libnccl.so.2, with results checked. Every call but those about ids and
 * versions works on the device whose context is the calling thread's. Any thread may call.
 */
public final class Libnccl {
  /** The file name to pass where it is installed as usual. */
  public static final String FILE = "libnccl.so.2";

  private static final int ID_BYTES = 128;
  private static final int SYMMETRIC = 1; // NCCL_WIN_COLL_SYMMETRIC
  private static final int HAS_ALL_TO_ALL = 22800;

  private final NcclFunctions nccl;
  private final int version;

  private Libnccl(NcclFunctions nccl) {
    this.nccl = nccl;
    try (DeviceMemory out = Devices.host().allocate(Integer.BYTES)) {
      check(nccl.ncclGetVersion(out.address()), "ncclGetVersion", 0);
      version = read(out).getInt(0);
    }
  }

  /**
   * Loads it.
   *
   * @param file its name or path
   * @throws org.nccl4j.device.SystemErrorException if there is none
   */
  public static Libnccl load(String file) {
    return new Libnccl(NativeLibrary.load(NcclFunctions.class, file));
  }

  /** Such as "2.28.9". */
  public String version() {
    return "%d.%d.%d".formatted(version / 10_000, version / 100 % 100, version % 100);
  }

  /** A new unique id, as text. */
  public String uniqueId() {
    try (DeviceMemory id = Devices.host().allocate(ID_BYTES)) {
      check(nccl.ncclGetUniqueId(id.address()), "ncclGetUniqueId", 0);
      return HexFormat.of().formatHex(read(id).array());
    }
  }

  /** Joins a communicator; returns its handle. */
  public long join(int nRanks, String uniqueId, int rank) {
    ByteBuffer id =
        ByteBuffer.wrap(HexFormat.of().parseHex(uniqueId)).order(ByteOrder.nativeOrder());
    long[] w = new long[ID_BYTES / Long.BYTES];
    id.asLongBuffer().get(w);
    try (DeviceMemory out = Devices.host().allocate(Long.BYTES)) {
      check(
          nccl.ncclCommInitRank(
              out.address(),
              nRanks,
              rank,
              0,
              0,
              0,
              w[0],
              w[1],
              w[2],
              w[3],
              w[4],
              w[5],
              w[6],
              w[7],
              w[8],
              w[9],
              w[10],
              w[11],
              w[12],
              w[13],
              w[14],
              w[15]),
          "ncclCommInitRank",
          0);
      return read(out).getLong(0);
    }
  }

  /** Ends a communicator. */
  public void destroy(long communicator) {
    check(nccl.ncclCommDestroy(communicator), "ncclCommDestroy", 0);
  }

  /** Memory of the thread's device that can become a window. */
  public long allocate(long bytes) {
    try (DeviceMemory out = Devices.host().allocate(Long.BYTES)) {
      check(nccl.ncclMemAlloc(out.address(), bytes), "ncclMemAlloc of " + bytes + " bytes", 0);
      return read(out).getLong(0);
    }
  }

  /** Frees memory of {@link #allocate}. */
  public void free(long address) {
    check(nccl.ncclMemFree(address), "ncclMemFree", 0);
  }

  /** Makes a buffer a symmetric window; all ranks call it alike. Returns a handle. */
  public long register(long communicator, long address, long bytes) {
    try (DeviceMemory out = Devices.host().allocate(Long.BYTES)) {
      check(
          nccl.ncclCommWindowRegister(communicator, address, bytes, out.address(), SYMMETRIC),
          "ncclCommWindowRegister",
          communicator);
      return read(out).getLong(0);
    }
  }

  /** Ends a window. */
  public void deregister(long communicator, long window) {
    check(
        nccl.ncclCommWindowDeregister(communicator, window),
        "ncclCommWindowDeregister",
        communicator);
  }

  /** Begins a group of this thread. */
  public void groupStart() {
    check(nccl.ncclGroupStart(), "ncclGroupStart", 0);
  }

  /** Ends it. */
  public void groupEnd() {
    check(nccl.ncclGroupEnd(), "ncclGroupEnd", 0);
  }

  /** True if {@link #operation} has a workload's counterpart. */
  public static boolean has(Cell cell) {
    return switch (cell.workload()) {
      case ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, SEND_RECV -> true;
      default -> false;
    };
  }

  /**
   * The same operation as ours of a cell, ready to be launched again and again.
   *
   * @param place the communicator, its ranks and the stream
   */
  public Runnable operation(Cell cell, Buffers buffers, Place place) {
    long send = buffers.send().address();
    long recv = buffers.recv().address();
    long count = cell.layout(place.nRanks).count();
    int type = cell.type().ordinal(); // both enums have NCCL's order
    int op = cell.op().ordinal();
    long comm = place.communicator;
    long stream = place.stream;
    return switch (cell.workload()) {
      case ALL_REDUCE ->
          () ->
              check(
                  nccl.ncclAllReduce(send, recv, count, type, op, comm, stream), "AllReduce", comm);
      case ALL_GATHER ->
          () -> check(nccl.ncclAllGather(send, recv, count, type, comm, stream), "AllGather", comm);
      case REDUCE_SCATTER ->
          () ->
              check(
                  nccl.ncclReduceScatter(send, recv, count, type, op, comm, stream),
                  "ReduceScatter",
                  comm);
      case BROADCAST ->
          () ->
              check(
                  nccl.ncclBroadcast(send, recv, count, type, cell.root(), comm, stream),
                  "Broadcast",
                  comm);
      case REDUCE ->
          () ->
              check(
                  nccl.ncclReduce(send, recv, count, type, op, cell.root(), comm, stream),
                  "Reduce",
                  comm);
      case ALL_TO_ALL ->
          version >= HAS_ALL_TO_ALL
              ? () ->
                  check(nccl.ncclAlltoAll(send, recv, count, type, comm, stream), "AlltoAll", comm)
              : allToAll(buffers, count, type, place);
      case SEND_RECV -> {
        int n = place.nRanks;
        int next = (place.rank + 1) % n;
        int previous = (place.rank + n - 1) % n;
        yield () -> {
          groupStart();
          check(nccl.ncclSend(send, count, type, next, comm, stream), "Send", comm);
          check(nccl.ncclRecv(recv, count, type, previous, comm, stream), "Recv", comm);
          groupEnd();
        };
      }
      default ->
          throw new InvalidArgumentException(
              ErrorId.OPTION,
              "--compare libnccl has no " + cell.workload().label(),
              "compare another workload");
    };
  }

  private Runnable allToAll(Buffers buffers, long count, int type, Place place) {
    long bytes = count * buffers.type().bytes();
    return () -> {
      groupStart();
      for (int peer = 0; peer < place.nRanks; peer++) {
        long from = buffers.send().address() + peer * bytes;
        long to = buffers.recv().address() + peer * bytes;
        check(
            nccl.ncclSend(from, count, type, peer, place.communicator, place.stream),
            "Send",
            place.communicator);
        check(
            nccl.ncclRecv(to, count, type, peer, place.communicator, place.stream),
            "Recv",
            place.communicator);
      }
      groupEnd();
    };
  }

  /**
   * Rank and stream on which an operation is launched.
   *
   * @param communicator its handle
   * @param rank in it
   * @param stream a CUstream
   */
  public record Place(long communicator, int rank, int nRanks, long stream) {}

  private static ByteBuffer read(DeviceMemory memory) {
    ByteBuffer bytes = ByteBuffer.allocate((int) memory.size()).order(ByteOrder.nativeOrder());
    memory.read(0, bytes);
    return bytes.flip();
  }

  private void check(int result, String call, long communicator) {
    if (result != 0) {
      throw new RemoteException(
          "libnccl's %s failed with %s (%d): %s"
              .formatted(
                  call,
                  nccl.ncclGetErrorString(result),
                  result,
                  nccl.ncclGetLastError(communicator)),
          "set NCCL_DEBUG=WARN to see its log, or omit --compare");
    }
  }
}
