package org.nccl4j.transport.net.ib.device;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.verbs.Gid;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/** Reads the addresses of a device's ports. */
final class GidTable {
  private static final int MOST = 1024;

  /** The last index that a path can name, in a byte. */
  private static final int LAST = 255;

  private GidTable() {}

  /** The entries of one port that are set and that paths can name, by index. */
  static List<Gid> read(Verbs verbs, long context, String devicePath, int port, int length) {
    Offheap entries = new Offheap(MOST * GID_ENTRY_BYTES);
    int found = verbs.queryGids(context, entries);
    List<Gid> gids = new ArrayList<>();
    if (found < 0) {
      for (int index = 0; index < length; index++) {
        byte[] address = verbs.queryGid(context, port, index);
        if (address != null) {
          gids.add(new Gid(port, index, typeInSysfs(devicePath, port, index), address));
        }
      }
    }
    for (int i = 0; i < found; i++) {
      int at = i * GID_ENTRY_BYTES;
      if (entries.getInt(at + GID_ENTRY_PORT) == port) {
        gids.add(
            new Gid(
                port,
                entries.getInt(at + GID_ENTRY_INDEX),
                type(entries.getInt(at + GID_ENTRY_TYPE)),
                entries.getBytes(at + GID_ENTRY_GID, Gid.BYTES)));
      }
    }
    return gids.stream().filter(gid -> gid.isSet() && gid.index() <= LAST).toList();
  }

  private static Gid.Type type(int number) {
    return switch (number) {
      case GID_TYPE_ROCE_V2 -> Gid.Type.ROCE_V2;
      case GID_TYPE_ROCE_V1 -> Gid.Type.ROCE_V1;
      default -> Gid.Type.IB;
    };
  }

  private static Gid.Type typeInSysfs(String devicePath, int port, int index) {
    Path file = Path.of(devicePath, "ports", "" + port, "gid_attrs", "types", "" + index);
    try {
      String text = Files.readString(file).strip();
      return text.equals("RoCE v2")
          ? Gid.Type.ROCE_V2
          : text.contains("RoCE") ? Gid.Type.ROCE_V1 : Gid.Type.IB;
    } catch (IOException e) {
      return Gid.Type.IB;
    }
  }
}
