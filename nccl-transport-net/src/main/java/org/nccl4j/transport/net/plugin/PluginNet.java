package org.nccl4j.transport.net.plugin;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.support.CloseAll;

/** One communicator's use of a plug-in. */
final class PluginNet implements Net {
  /** The part of a listener's handle that is ours: it tells other jobs and other plug-ins. */
  private static final int MARK_BYTES = Long.BYTES;

  private final PluginLibrary library;
  private final PluginTable table;
  private final long mark;
  private final List<AutoCloseable> opened = new ArrayList<>();
  private List<NetDevice> devices;
  private List<Integer> numbers;
  private long context;
  private boolean started;
  private boolean closed;

  PluginNet(PluginLibrary library, NetContext of) {
    this.library = library;
    this.table = library.table();
    PluginTable.logAt(InfoLog.level(of, "NET"));
    this.mark = mark(of.secret(), table.name());
  }

  private static long mark(byte[] secret, String name) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(secret);
      return ByteBuffer.wrap(digest.digest(name.getBytes(StandardCharsets.UTF_8))).getLong();
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every JVM has SHA-256", e);
    }
  }

  private void start() {
    if (!started) {
      context = library.start(mark);
      started = true;
    }
  }

  @Override
  public List<NetDevice> devices() {
    if (devices == null) {
      start();
      findDevices();
    }
    return devices;
  }

  /** Finds the devices that the host drives; the plug-in may number others too. */
  private void findDevices() {
    List<NetDevice> found = new ArrayList<>();
    List<Integer> at = new ArrayList<>();
    Offheap block = new Offheap(PluginProperties.BYTES);
    int n = table.devices(block);
    for (int d = 0; d < n; d++) {
      PluginProperties properties = table.properties(d, block.clear());
      if (properties.deviceType() == 0 && (properties.pointers() & PluginTable.HOST_POINTER) != 0) {
        found.add(properties.device(d));
        at.add(d);
      }
    }
    if (found.isEmpty()) {
      throw new SystemErrorException(
          ErrorId.SYSTEM,
          "network plug-in %s has %d devices, none of which supports memory of the host"
              .formatted(table, n),
          "see the plug-in's messages with NCCL_DEBUG=INFO, or set NCCL_NET_PLUGIN=none");
    }
    devices = List.copyOf(found);
    numbers = List.copyOf(at);
  }

  @Override
  public Optional<String> unprotected() {
    return Optional.of("plug-in %s moves them".formatted(table.name()));
  }

  @Override
  public NetListener listen(int device) {
    devices();
    PluginListener listener = new PluginListener(this, context, numbers.get(device));
    opened.add(listener);
    return listener;
  }

  @Override
  public NetSender connect(int device, byte[] handle) {
    devices();
    PluginSender sender =
        new PluginSender(table, context, numbers.get(device), pluginsPart(handle));
    opened.add(sender);
    return sender;
  }

  PluginTable table() {
    return table;
  }

  /** A receiver that a listener has accepted. */
  void add(PluginReceiver receiver) {
    opened.add(receiver);
  }

  byte[] handle(ByteBuffer plugins) {
    ByteBuffer handle = ByteBuffer.allocate(MARK_BYTES + PluginTable.HANDLE_BYTES);
    return handle.putLong(mark).put(plugins).array();
  }

  private byte[] pluginsPart(byte[] handle) {
    ByteBuffer in = ByteBuffer.wrap(handle);
    if (handle.length != MARK_BYTES + PluginTable.HANDLE_BYTES || in.getLong() != mark) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "%d bytes are not the handle of a listener of this communicator with network plug-in %s"
              .formatted(handle.length, table.name()),
          "use the same plug-in on all ranks (NCCL_NET_PLUGIN), and the same version of nccl4j");
    }
    byte[] plugins = new byte[PluginTable.HANDLE_BYTES];
    in.get(plugins);
    return plugins;
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    CloseAll all = new CloseAll();
    for (AutoCloseable each : opened) {
      if (each instanceof PluginListener listener) {
        all.take(listener::close);
      } else if (each instanceof PluginConnection connection) {
        all.take(connection::close);
      }
    }
    opened.clear();
    if (started && table.hasContexts()) {
      all.take(() -> table.end(context));
    }
    all.end();
  }
}
