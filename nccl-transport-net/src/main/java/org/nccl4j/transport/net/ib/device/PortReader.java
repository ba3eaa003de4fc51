package org.nccl4j.transport.net.ib.device;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/** Asks an open device what its ports are. */
final class PortReader {
  private PortReader() {}

  /** All ports of a device. */
  static List<IbPort> read(Verbs verbs, long device, long context) {
    Offheap attributes = new Offheap(DEVICE_ATTR_BYTES);
    verbs.queryDevice(context, attributes);
    int count = attributes.getByte(DEVICE_ATTR_PHYS_PORT_CNT);
    List<IbPort> ports = new ArrayList<>();
    for (int port = 1; port <= count; port++) {
      ports.add(port(verbs, device, context, port));
    }
    return ports;
  }

  private static IbPort port(Verbs verbs, long device, long context, int port) {
    Offheap attributes = new Offheap(PORT_ATTR_BYTES);
    verbs.queryPort(context, port, attributes);
    String path = verbs.devicePath(device);
    return new IbPort(
        verbs.deviceName(device),
        port,
        verbs.deviceGuid(device),
        pciPath(path),
        attributes.getInt(PORT_ATTR_STATE),
        attributes.getByte(PORT_ATTR_LINK_LAYER) == LINK_LAYER_ETHERNET,
        attributes.getShort(PORT_ATTR_LID),
        attributes.getInt(PORT_ATTR_ACTIVE_MTU),
        lanes(attributes.getByte(PORT_ATTR_ACTIVE_WIDTH))
            * laneMegabits(attributes.getByte(PORT_ATTR_ACTIVE_SPEED)),
        Integer.toUnsignedLong(attributes.getInt(PORT_ATTR_MAX_MSG_SZ)),
        verbs.deviceTransport(device) == TRANSPORT_IWARP,
        GidTable.read(verbs, context, path, port, attributes.getInt(PORT_ATTR_GID_TBL_LEN)));
  }

  private static String pciPath(String devicePath) {
    try {
      Path device = Path.of(devicePath, "device");
      return Files.exists(device) ? device.toRealPath().toString() : "";
    } catch (IOException e) {
      return "";
    }
  }

  /** From the code of InfiniBand's PortInfo.LinkWidthActive. */
  private static int lanes(int code) {
    return switch (code) {
      case 2 -> 4;
      case 4 -> 8;
      case 8 -> 12;
      case 16 -> 2;
      default -> 1;
    };
  }

  /** From the code of InfiniBand's PortInfo.LinkSpeedActive and its extensions. */
  private static int laneMegabits(int code) {
    return switch (code) {
      case 2 -> 5_000;
      case 4, 8 -> 10_000;
      case 16 -> 14_000;
      case 32 -> 25_000;
      case 64 -> 50_000;
      case 128 -> 100_000;
      default -> 2_500;
    };
  }
}
