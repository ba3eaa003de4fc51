package org.nccl4j.it.abi;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.UniqueId;

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
}
