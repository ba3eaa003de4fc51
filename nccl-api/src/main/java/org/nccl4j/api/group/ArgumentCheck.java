package org.nccl4j.api.group;

import java.math.BigInteger;
import java.util.Optional;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/**
 * Checks the arguments of an operation on one rank.
 *
 * @param name of the communicator
 * @param checksPointers whether the device is asked about each buffer's address
 * @param checksOverlaps whether buffers are refused that overlap in another way than in place
 */
record ArgumentCheck(
    String name,
    int rank,
    int nRanks,
    Device device,
    boolean checksPointers,
    boolean checksOverlaps) {
  @HotPath
  void check(long shape, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    DataType type = CallShape.type(shape);
    int root = CallShape.root(shape);
    if (type == null
        || CallShape.op(shape) == null
        || stream == null
        || root < 0
        || root >= nRanks
        || count < 0
        || stream.device() != device
        || !Leases.of(stream).isOpen()) {
      throw wrong(shape, count, stream);
    }
    if (count > 0) {
      checkBuffer(shape, "send", send, sendParts(shape), count);
      checkBuffer(shape, "recv", recv, recvParts(shape), count);
      if (checksOverlaps) {
        checkOverlap(shape, send, recv, count * type.bytes());
      }
    }
  }

  /** The error of wrong arguments beside the buffers; closed objects come last. */
  private NcclException wrong(long shape, long count, DeviceStream stream) {
    DataType type = CallShape.type(shape);
    RedOp op = CallShape.op(shape);
    int root = CallShape.root(shape);
    if (type == null || op == null || stream == null) {
      return wrong(
          shape,
          stream == null && type != null && op != null ? ErrorId.STREAM : ErrorId.TYPE,
          (type == null ? "type" : op == null ? "operator" : "stream") + " is null",
          "pass one");
    }
    if (root < 0 || root >= nRanks) {
      Operation operation = CallShape.operation(shape);
      return noRank(operation.key(), operation.isP2p() ? "peer" : "root", root);
    }
    if (count < 0) {
      return wrong(shape, ErrorId.COUNT, "count is " + count, "pass 0 or more");
    }
    if (stream.device() != device) {
      return wrong(
          shape,
          ErrorId.STREAM,
          "the stream belongs to " + stream.device().name(),
          "create it on " + device.name());
    }
    return new InvalidUsageException(
        ErrorId.CLOSED,
        where(shape) + "called with a closed stream",
        "close a stream only after its last operation has been called");
  }

  /** The send buffer; null where it is closed and not looked at. */
  @HotPath
  DeviceMemory send(long shape, DeviceMemory send, long count) {
    return send == null || send.isOpen() || count > 0 && sendParts(shape) > 0 ? send : null;
  }

  /** The recv buffer; null where it is closed and not looked at. */
  @HotPath
  DeviceMemory recv(long shape, DeviceMemory recv, long count) {
    return recv == null || recv.isOpen() || count > 0 && recvParts(shape) > 0 ? recv : null;
  }

  /**
   * Checks that buffers in place begin together, or that one is this rank's part of the other.
   *
   * @param part bytes of count elements
   */
  private void checkOverlap(long shape, DeviceMemory send, DeviceMemory recv, long part) {
    int sends = sendParts(shape);
    int recvs = recvParts(shape);
    if (sends == 0 || recvs == 0) {
      return;
    }
    long apart = recv.address() - send.address();
    boolean overlap = apart < sends * part && -apart < recvs * part;
    long inPlace = sends == recvs ? 0 : recvs > sends ? -rank * part : rank * part;
    if (overlap && (apart != inPlace || CallShape.operation(shape) == Operation.ALL_TO_ALL)) {
      throw wrong(
          shape,
          ErrorId.BUFFER,
          "the recv buffer begins %d bytes behind the send buffer and overlaps it".formatted(apart),
          "pass memory that does not overlap, or that is in place as the operation defines it");
    }
  }

  /** Checks that an operator that a user supplies fits a type, and that its scalar can be read. */
  void check(long shape, ReductionOperator operator) {
    DataType type = CallShape.type(shape);
    if (operator.type() != null && operator.type() != type) {
      throw wrong(
          shape,
          ErrorId.TYPE,
          "the operator %s was created for %s, but the elements are %s"
              .formatted(operator.name(), operator.type().label(), type.label()),
          "create the operator for the type of the elements");
    }
    if (operator.memory() != null) {
      checkBuffer(shape, "scalar's", operator.memory(), 1, 1);
      if (!checksPointers) { // asked always: no other rank would hear of a kernel's fault
        checkPointer(shape, "scalar's", operator.memory().slice(0, type.bytes()));
      }
    }
  }

  /**
   * Returns the size of the send buffer as a multiple of count elements; 0 if the buffer is
   * ignored.
   */
  @HotPath
  private int sendParts(long shape) {
    return CallShape.operation(shape).sendParts(nRanks, rank == CallShape.root(shape));
  }

  /**
   * Returns the size of the recv buffer as a multiple of count elements; 0 if the buffer is
   * ignored.
   */
  @HotPath
  private int recvParts(long shape) {
    return CallShape.operation(shape).recvParts(nRanks, rank == CallShape.root(shape));
  }

  @HotPath
  private void checkBuffer(long shape, String which, DeviceMemory buffer, int parts, long count) {
    if (parts == 0) {
      return;
    }
    long unit = (long) parts * CallShape.type(shape).bytes();
    if (buffer == null
        || buffer.device() != device
        || !buffer.isOpen()
        || Math.multiplyHigh(count, unit) != 0
        || count * unit < 0
        || count * unit > buffer.size()
        || isMisaligned(shape, buffer)) {
      throw wrong(shape, which, buffer, parts, count);
    }
    if (checksPointers) {
      checkPointer(shape, which, buffer.slice(0, count * unit));
    }
  }

  /**
   * True for elements that a GPU's kernels cannot load; processors can. Kernels that only move
   * elements move bytes.
   */
  @HotPath
  private boolean isMisaligned(long shape, DeviceMemory buffer) {
    return (buffer.address() & CallShape.type(shape).bytes() - 1) != 0
        && device.kind() == Device.Kind.CUDA
        && CallShape.operation(shape).reduces();
  }

  /** The error of a buffer that is wrong; its size is the last. */
  private NcclException wrong(
      long shape, String which, DeviceMemory buffer, int parts, long count) {
    DataType type = CallShape.type(shape);
    if (buffer == null) {
      return wrong(
          shape,
          ErrorId.BUFFER,
          "the " + which + " buffer is null",
          "pass memory of " + device.name());
    }
    if (buffer.device() != device) {
      return wrong(
          shape,
          ErrorId.BUFFER,
          "the %s buffer belongs to %s".formatted(which, buffer.device().name()),
          "allocate it on " + device.name());
    }
    if (!buffer.isOpen()) {
      return new InvalidUsageException(
          ErrorId.CLOSED,
          where(shape) + "the " + which + " buffer is closed",
          "close memory only after its last operation has been called");
    }
    if (isMisaligned(shape, buffer)) {
      return wrong(
          shape,
          ErrorId.BUFFER,
          "the %s buffer begins at 0x%x, but elements of %s that a GPU reduces must be aligned to %d bytes"
              .formatted(which, buffer.address(), type.label(), type.bytes()),
          "pass memory that begins at a multiple of the element's size, or copy the elements there");
    }
    BigInteger needed =
        BigInteger.valueOf(parts)
            .multiply(BigInteger.valueOf(type.bytes()))
            .multiply(BigInteger.valueOf(count));
    return wrong(
        shape,
        ErrorId.BUFFER,
        "the %s buffer has %d bytes, %s%d elements of %s need %s"
            .formatted(
                which, buffer.size(), parts == 1 ? "" : parts + " x ", count, type.label(), needed),
        "pass a larger buffer or a smaller count");
  }

  private void checkPointer(long shape, String which, DeviceMemory part) {
    Optional<String> objection = device.objection(part);
    if (objection.isPresent()) {
      throw wrong(
          shape,
          ErrorId.BUFFER,
          "of the %s buffer %s".formatted(which, objection.get()),
          "wrap the address of memory that was allocated for " + device.name());
    }
  }

  /** Refuses a root of an operation that consists of sends and receives. */
  void requireRoot(String operation, int root) {
    if (root < 0 || root >= nRanks) {
      throw noRank(operation, "root", root);
    }
  }

  private NcclException noRank(String operation, String role, int given) {
    return new InvalidArgumentException(
        ErrorId.RANK,
        where(operation) + "%s %d is not a rank of %d".formatted(role, given, nRanks),
        nRanks == 1 ? "pass 0" : "pass 0 to " + (nRanks - 1));
  }

  private NcclException wrong(long shape, ErrorId id, String problem, String remedy) {
    return new InvalidArgumentException(id, where(shape) + problem, remedy);
  }

  private String where(long shape) {
    return where(CallShape.operation(shape).key());
  }

  private String where(String operation) {
    return "%s on rank %d of communicator %s: ".formatted(operation, rank, name);
  }
}
