package org.nccl4j.transport.net.plugin;

import java.util.EnumSet;
import java.util.Set;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetDevice.Pointers;
import org.nccl4j.device.bind.NativeMemory;

/**
 * A device's properties as a plug-in fills them in.
 *
 * @param name the device's name; may be empty
 * @param pciPath its place under /sys; may be empty
 * @param guid the same for devices that are one piece of hardware
 * @param pointers which memories can be registered, as bits
 * @param megabits speed in Mbit/s
 * @param port number of the port
 * @param latencyMicros one-way latency
 * @param maxReceives most receives in one group
 * @param maxBytes most bytes of one message
 * @param deviceType 0 if the host drives it
 */
record PluginProperties(
    String name,
    String pciPath,
    long guid,
    int pointers,
    int megabits,
    int port,
    float latencyMicros,
    int maxReceives,
    long maxBytes,
    int deviceType) {
  /** Bytes of the largest version. */
  static final int BYTES = 128;

  private static final int MAX_MESSAGE = 1 << 30;

  private static final int GUID = 16;
  private static final int POINTERS = 24;

  /** Where the properties are that a new one, forceFlush, has moved. */
  private static final int SPEED_8 = 32;

  private static final int SPEED_9 = 36;
  private static final int MAX_P2P_BYTES = 88;

  /** Reads what a plug-in of a version has written. */
  static PluginProperties read(int version, long address) {
    long speed = address + (version >= 9 ? SPEED_9 : SPEED_8);
    return new PluginProperties(
        text(address),
        text(address + Long.BYTES),
        NativeMemory.getLong(address + GUID),
        NativeMemory.getInt(address + POINTERS),
        NativeMemory.getInt(speed),
        NativeMemory.getInt(speed + 4),
        Float.intBitsToFloat(NativeMemory.getInt(speed + 8)),
        NativeMemory.getInt(speed + 16),
        version >= 9 ? NativeMemory.getLong(address + MAX_P2P_BYTES) : MAX_MESSAGE,
        NativeMemory.getInt(speed + 20));
  }

  private static String text(long pointer) {
    String text = NativeMemory.string(NativeMemory.getLong(pointer));
    return text == null ? "" : text;
  }

  /** The same in the words of the interface. */
  NetDevice device(int index) {
    Set<Pointers> kinds = EnumSet.of(Pointers.HOST);
    if ((pointers & PluginTable.CUDA_POINTER) != 0) {
      kinds.add(Pointers.CUDA);
    }
    if ((pointers & PluginTable.DMA_BUF_POINTER) != 0) {
      kinds.add(Pointers.DMA_BUF);
    }
    return new NetDevice(
        name.isEmpty() ? "plugin" + index : name,
        pciPath,
        guid,
        Math.max(1, port),
        Math.max(1, megabits),
        Math.max(0, latencyMicros),
        kinds,
        Math.max(1, Math.min(PluginConnection.GROUP, maxReceives)),
        (int) Math.max(1, Math.min(MAX_MESSAGE, maxBytes <= 0 ? MAX_MESSAGE : maxBytes)));
  }
}
