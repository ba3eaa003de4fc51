package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.failover.LinkWatch;
import org.nccl4j.transport.net.ib.control.ControlAddresses;
import org.nccl4j.transport.net.ib.control.ControlDialer;
import org.nccl4j.transport.net.ib.control.ControlPort;
import org.nccl4j.transport.net.ib.control.IbHandle;
import org.nccl4j.transport.net.ib.device.GidChoice;
import org.nccl4j.transport.net.ib.device.IbDevices;
import org.nccl4j.transport.net.ib.device.IbPort;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/** InfiniBand and RoCE for one communicator. Called by one thread at a time. */
final class IbNet implements Net {
  private static final int MOST_BYTES = 1 << 30;
  private static final double LATENCY_MICROS = 1.0;

  /** Time between two looks at a connection that nobody polls. */
  private static final Duration IDLE_LOOK = Duration.ofMillis(100);

  private static final List<Path> PEER_MEMORY =
      List.of(
          Path.of("/sys/module/nvidia_peermem"),
          Path.of("/sys/kernel/mm/memory_peers/nv_mem/version"));

  private final NetContext context;
  private final IbSettings settings;
  private final OpenConnections opened = new OpenConnections();
  private final LinkWatch watch;
  private volatile ControlPort port;
  private List<LocalQpInfo> ends;
  private List<NetDevice> devices;
  private boolean closed;

  IbNet(NetContext context) {
    this.context = context;
    settings = IbSettings.of(context);
    watch = new LinkWatch("nccl4j-ib-watch", settings.failOver(), IDLE_LOOK, this::pollPort);
  }

  @Override
  public List<NetDevice> devices() {
    look();
    return devices;
  }

  private void look() {
    if (devices != null) {
      return;
    }
    List<LocalQpInfo> found = new ArrayList<>();
    List<NetDevice> described = new ArrayList<>();
    for (IbPort port : IbDevices.find(Verbs.load(settings.library()), settings).usable()) {
      found.add(new LocalQpInfo(port, GidChoice.choose(port, settings)));
      described.add(describe(port));
    }
    if (found.isEmpty()) {
      throw new SystemErrorException(
          ErrorId.INFINIBAND,
          "InfiniBand: no port can be used any more",
          "run ./nccl doctor to see what changed");
    }
    ends = List.copyOf(found);
    devices = List.copyOf(described);
  }

  private NetDevice describe(IbPort port) {
    Set<NetDevice.Pointers> pointers = EnumSet.of(NetDevice.Pointers.HOST);
    if (PEER_MEMORY.stream().anyMatch(Files::exists)) {
      pointers.add(NetDevice.Pointers.CUDA);
    }
    try (OpenDevice device = OpenDevice.of(settings, port.device())) {
      if (device.verbs().takesDmaBufs(device.domain())) {
        pointers.add(NetDevice.Pointers.DMA_BUF);
      }
    }
    return new NetDevice(
        port.name(),
        port.pciPath(),
        port.guid(),
        port.port(),
        port.megabits(),
        LATENCY_MICROS,
        pointers,
        ClearToSend.MAX_RECEIVES,
        (int) Math.min(port.maxMessage(), MOST_BYTES));
  }

  private LocalPorts end(int device) {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "the InfiniBand network is used after close",
          "close it after its last use");
    }
    look();
    if (device < 0 || device >= ends.size()) {
      throw new InvalidArgumentException(
          ErrorId.DEVICE,
          "there is no InfiniBand device %d; there are %d".formatted(device, ends.size()),
          "pass an index into devices()");
    }
    return new LocalPorts(ends, device);
  }

  @Override
  public boolean carriesNotes() {
    return true;
  }

  @Override
  public NetListener listen(int device) {
    LocalPorts at = end(device);
    try {
      List<InetAddress> addresses = ControlAddresses.of(context, at.get(device).gid());
      if (port == null) {
        port = new ControlPort(context);
      }
      IbHandle handle = port.await(settings.queuePairs(), addresses);
      return opened.add(new IbListener(settings, at, context.rank(), watch, handle, port, opened));
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.PORT,
          "InfiniBand: a TCP port for the control connection cannot be opened: " + e.getMessage(),
          "raise ulimit -n if there are too many open files, or widen NCCL4J_BOOTSTRAP_PORTS",
          e);
    }
  }

  private void pollPort() {
    ControlPort open = port;
    if (open != null) {
      open.poll();
      if (open.hasGuests()) {
        watch.haveGuests();
      }
    }
  }

  @Override
  public NetSender connect(int device, byte[] handle) {
    LocalPorts ports = end(device);
    IbHandle to = IbHandle.decode(handle);
    int pairs = Math.max(settings.queuePairs(), to.queuePairs());
    return opened.add(
        new IbSender(
            settings,
            ports,
            pairs,
            context.rank(),
            watch,
            place -> new ControlDialer(to, place, context)));
  }

  @Override
  public void close() {
    closed = true;
    watch.close();
    opened.close();
    if (port != null) {
      port.close();
    }
  }
}
