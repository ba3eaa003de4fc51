package org.nccl4j.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.util.Arrays;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.QuantisedWork.Parts;
import org.nccl4j.device.numeric.FloatFormat;
import org.nccl4j.operation.Operation;

/**
 * Delivers tokens with an all-gather of the expert numbers, and sends and receives of the rows of
 * each expert. Works on any device and between any ranks. The host finds the rows, packs and adds,
 * so a call waits for its stream and for the other ranks.
 */
final class ExpertMessages implements ExpertDelivery {
  private static final FloatFormat FP8 = FloatFormat.of(DataType.FLOAT8_E4M3);

  private final OperationDispatcher queue;
  private final ExpertSizes sizes;
  private final ExpertBuffers buffers;
  private final ExpertRows rows;
  private final FloatFormat format;

  /** Own rows by expert, token and k: tokens on their way out, and outputs that came back. */
  private final DeviceMemory packed;

  private final DeviceMemory packedScales;
  private final DeviceMemory ownTable;
  private final DeviceMemory allTables;

  private final ByteBuffer tables;
  private final IntBuffer tableInts;
  private final ByteBuffer ints;
  private final ByteBuffer row;
  private final ByteBuffer wire;
  private final ByteBuffer scales;
  private final float[] weights;
  private final float[] sums;
  private int tokens;

  private ExpertMessages(
      OperationDispatcher queue,
      ExpertSizes sizes,
      ExpertBuffers buffers,
      int rank,
      DeviceMemory[] memory) {
    this.queue = queue;
    this.sizes = sizes;
    this.buffers = buffers;
    this.rows = new ExpertRows(sizes, rank);
    this.format = FloatFormat.of(sizes.type());
    packed = memory[0];
    packedScales = memory[1];
    ownTable = memory[2];
    allTables = memory[3];
    tables = buffer(allTables.size());
    tableInts = tables.asIntBuffer();
    ints =
        buffer(
            Math.max(ownTable.size(), Math.max(buffers.counts().size(), buffers.offsets().size())));
    row = buffer(sizes.rowBytes());
    wire = buffer(sizes.wireBytes());
    scales = buffer(sizes.scaleBytes());
    weights = new float[Math.toIntExact(sizes.entries())];
    sums = new float[sizes.hidden()];
  }

  /**
   * Allocates what is needed besides the user's buffers, together with all other ranks.
   *
   * @throws NcclException on all ranks, if one of them lacks memory
   */
  static ExpertMessages create(
      CommunicatorState state,
      OperationDispatcher queue,
      ExpertConfig config,
      ExpertBuffers buffers) {
    ExpertSizes sizes = config.sizes(state.nRanks());
    long entries = sizes.entries();
    DeviceMemory[] memory = {};
    NcclException lack = null;
    try {
      memory =
          ExpertBuffers.allocateAll(
              state.device(),
              entries * sizes.rowBytes(),
              entries * sizes.scaleBytes(),
              (1 + entries) * Integer.BYTES,
              sizes.nRanks() * (1 + entries) * Integer.BYTES);
    } catch (NcclException e) {
      lack = e;
    }
    try {
      ExpertAgreement.reach(state, config, lack);
    } catch (RuntimeException e) {
      for (DeviceMemory each : memory) {
        each.close();
      }
      throw e;
    }
    return new ExpertMessages(queue, sizes, buffers, state.rank(), memory);
  }

  private static ByteBuffer buffer(long bytes) {
    return ByteBuffer.allocateDirect(Math.toIntExact(bytes)).order(ByteOrder.nativeOrder());
  }

  @Override
  public boolean isCapturable() {
    return false;
  }

  @Override
  public void dispatch(
      DeviceMemory from,
      DeviceMemory experts,
      DeviceMemory factors,
      int count,
      boolean whole,
      DeviceStream stream) {
    stream.synchronize();
    readExperts(experts, count);
    ownTable.write(0, ints);
    readWeights(factors, count);
    tokens = count;
    queue.call(
        CallShape.of(Operation.ALL_GATHER, DataType.INT32, RedOp.SUM, 0),
        ownTable,
        allTables,
        1 + sizes.entries(),
        stream);
    stream.synchronize();
    tables.clear();
    allTables.read(0, tables);
    rows.find(tableInts);
    pack(from);
    GroupScope.run(() -> exchangeTokens(stream));
    writeCounts();
    stream.synchronize();
  }

  /** The first part has done all. */
  @Override
  public void receiveDispatch(DeviceStream stream) {}

  /** Reads expert numbers into a table, and refuses those that do not exist. */
  private void readExperts(DeviceMemory experts, int count) {
    int entries = count * sizes.topK();
    ints.clear();
    ints.putInt(count).limit((1 + entries) * Integer.BYTES);
    experts.read(0, ints);
    ints.flip();
    for (int entry = 0; entry < entries; entry++) {
      int expert = ints.getInt((1 + entry) * Integer.BYTES);
      if (expert < -1 || expert >= sizes.experts()) {
        throw new InvalidArgumentException(
            ErrorId.ARGUMENT,
            "token %d has the expert %d as number %d of its experts"
                .formatted(entry / sizes.topK(), expert, entry % sizes.topK()),
            "pass 0 to %d, or -1 for no expert".formatted(sizes.experts() - 1));
      }
    }
  }

  private void readWeights(DeviceMemory factors, int count) {
    tables.clear().limit(count * sizes.topK() * Float.BYTES);
    factors.read(0, tables);
    for (int entry = 0; entry < count * sizes.topK(); entry++) {
      weights[entry] = tables.getFloat(entry * Float.BYTES);
    }
  }

  /** Brings own tokens into the order of their experts, in the form that they are sent in. */
  private void pack(DeviceMemory from) {
    for (int token = 0; token < tokens; token++) {
      boolean read = false;
      for (int k = 0; k < sizes.topK(); k++) {
        int place = rows.place(token * sizes.topK() + k);
        if (place < 0) {
          continue;
        }
        if (!read) {
          from.read(token * sizes.rowBytes(), row.clear());
          convert();
          read = true;
        }
        packed.write(place * sizes.wireBytes(), (sizes.fp8() ? wire : row).rewind());
        if (sizes.fp8()) {
          packedScales.write((long) place * scales.capacity(), scales.rewind());
        }
      }
    }
  }

  /** Makes the fp8 form of a token, in float32 arithmetic. */
  private void convert() {
    for (int group = 0; group < sizes.scales(); group++) {
      int first = group * ExpertSizes.SCALED;
      int most = 0;
      for (int e = first; e < first + ExpertSizes.SCALED; e++) {
        float magnitude = Math.abs((float) format.toDouble(bits(e)));
        most = Math.max(most, Float.floatToIntBits(magnitude));
      }
      boolean finite = Parts.isFinite(most);
      float greatest = Parts.greatest(most, Parts.MOST_FP8);
      float factor = Parts.MOST_FP8 / greatest;
      for (int e = first; e < first + ExpertSizes.SCALED; e++) {
        float scaled = finite ? (float) format.toDouble(bits(e)) * factor : 0;
        wire.put(e, (byte) FP8.fromDouble(scaled));
      }
      scales.putFloat(
          group * Float.BYTES, finite ? Parts.scale(greatest, Parts.MOST_FP8) : Float.NaN);
    }
  }

  private long bits(int element) {
    return sizes.type().bytes() == Short.BYTES
        ? row.getShort(element * Short.BYTES) & 0xffffL
        : row.getInt(element * Integer.BYTES) & 0xffffffffL;
  }

  private void exchangeTokens(DeviceStream stream) {
    own(Operation.SEND, packed, sizes.wireType(), sizes.hidden(), stream);
    local(Operation.RECV, buffers.received(), sizes.wireType(), sizes.hidden(), stream);
    if (sizes.fp8()) {
      own(Operation.SEND, packedScales, DataType.FLOAT32, sizes.scales(), stream);
      local(Operation.RECV, buffers.scales(), DataType.FLOAT32, sizes.scales(), stream);
    }
  }

  /** Sends or receives the own rows of every expert. */
  private void own(
      Operation what, DeviceMemory memory, DataType type, int elements, DeviceStream stream) {
    for (int expert = 0; expert < sizes.experts(); expert++) {
      transfer(
          what,
          memory,
          new Run(rows.sentFirst(expert), rows.sent(expert), expert / rows.local()),
          type,
          elements,
          stream);
    }
  }

  /** Sends or receives the rows of the local experts. */
  private void local(
      Operation what, DeviceMemory memory, DataType type, int elements, DeviceStream stream) {
    for (int expert = 0; expert < rows.local(); expert++) {
      for (int peer = 0; peer < sizes.nRanks(); peer++) {
        transfer(
            what,
            memory,
            new Run(rows.receivedFirst(expert, peer), rows.received(expert, peer), peer),
            type,
            elements,
            stream);
      }
    }
  }

  /** Rows of one expert for one rank. */
  private record Run(int first, int count, int peer) {}

  private void transfer(
      Operation what,
      DeviceMemory memory,
      Run run,
      DataType type,
      int elements,
      DeviceStream stream) {
    if (run.count == 0) {
      return;
    }
    long bytes = (long) elements * type.bytes();
    DeviceMemory part = memory.slice(run.first * bytes, run.count * bytes);
    queue.call(
        CallShape.of(what, type, RedOp.SUM, run.peer),
        what == Operation.SEND ? part : null,
        what == Operation.SEND ? null : part,
        (long) run.count * elements,
        stream);
  }

  private void writeCounts() {
    ints.clear();
    for (int expert = 0; expert < rows.local(); expert++) {
      for (int source = 0; source < sizes.nRanks(); source++) {
        ints.putInt(rows.received(expert, source));
      }
    }
    buffers.counts().write(0, ints.flip());
    ints.clear();
    for (int expert = 0; expert < rows.local(); expert++) {
      ints.putInt(rows.receivedFirst(expert, 0));
    }
    buffers.offsets().write(0, ints.putInt(rows.allReceived()).flip());
  }

  @Override
  public void combine(DeviceMemory outputs, DeviceMemory result, DeviceStream stream) {
    long needed = rows.allReceived() * sizes.rowBytes();
    if (outputs.size() < needed) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "outputs of %d bytes for %d rows of %d"
              .formatted(outputs.size(), rows.allReceived(), sizes.rowBytes()),
          "pass a row for each that was received");
    }
    stream.synchronize();
    GroupScope.run(
        () -> {
          local(Operation.SEND, outputs, sizes.type(), sizes.hidden(), stream);
          own(Operation.RECV, packed, sizes.type(), sizes.hidden(), stream);
        });
    stream.synchronize();
    if (result != null) {
      add(result);
    }
  }

  @Override
  public void receiveCombine(DeviceMemory result, DeviceStream stream) {
    stream.synchronize();
    add(result);
  }

  private void add(DeviceMemory result) {
    for (int token = 0; token < tokens; token++) {
      add(token);
      result.write(token * sizes.rowBytes(), row.rewind());
    }
  }

  /** Adds a token's rows, times their weights, in float32 in the order of k; rounds once. */
  private void add(int token) {
    Arrays.fill(sums, 0);
    for (int k = 0; k < sizes.topK(); k++) {
      int entry = token * sizes.topK() + k;
      if (rows.place(entry) < 0) {
        continue;
      }
      packed.read(rows.place(entry) * sizes.rowBytes(), row.clear());
      for (int e = 0; e < sums.length; e++) {
        sums[e] += weights[entry] * (float) format.toDouble(bits(e));
      }
    }
    for (int e = 0; e < sums.length; e++) {
      long bits = format.fromDouble(sums[e]);
      if (sizes.type().bytes() == Short.BYTES) {
        row.putShort(e * Short.BYTES, (short) bits);
      } else {
        row.putInt(e * Integer.BYTES, (int) bits);
      }
    }
    row.clear();
  }

  @Override
  public void close() {
    packed.close();
    packedScales.close();
    ownTable.close();
    allTables.close();
  }
}
