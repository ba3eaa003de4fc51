package org.nccl4j.it.abi;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** An ncclUniqueId: a unique id in its first bytes, and their number in the last. */
final class UniqueIds {
  static final int BYTES = 128;

  private UniqueIds() {}

  static byte[] create() {
    byte[] bytes = UniqueId.create(Config.defaults()).toBytes();
    if (bytes.length >= BYTES) {
      throw Wrong.usage(
          "a unique id has no room for the host's name", "use an address in NCCL_COMM_ID");
    }
    byte[] filled = Arrays.copyOf(bytes, BYTES);
    filled[BYTES - 1] = (byte) bytes.length;
    return filled;
  }

  static UniqueId parse(byte[] bytes) {
    int length = Math.min(bytes[BYTES - 1] & 0xff, BYTES - 1);
    return UniqueId.fromBytes(Arrays.copyOf(bytes, length));
  }

  /** Parses several, one after the other. */
  static List<UniqueId> parseAll(byte[] bytes) {
    List<UniqueId> all = new ArrayList<>();
    for (int at = 0; at < bytes.length; at += BYTES) {
      all.add(parse(Arrays.copyOfRange(bytes, at, at + BYTES)));
    }
    return all;
  }

  /**
   * Tells all ranks of a communicator the id that one of them has; all call it.
   *
   * @param id null on the others
   */
  static UniqueId share(Communicator communicator, byte[] id) {
    Device device = communicator.device();
    byte[] bytes = id == null ? new byte[BYTES] : id.clone();
    try (DeviceMemory memory = device.allocate(BYTES);
        DeviceStream stream = device.createStream()) {
      memory.write(0, ByteBuffer.wrap(bytes));
      communicator.allReduce(memory, memory, BYTES, DataType.UINT8, RedOp.MAX, stream);
      stream.synchronize();
      memory.read(0, ByteBuffer.wrap(bytes));
    }
    return parse(bytes);
  }
}
