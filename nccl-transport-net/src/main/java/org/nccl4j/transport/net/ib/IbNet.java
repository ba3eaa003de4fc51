package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.channels.SelectableChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
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
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.transport.net.failover.RestingWatch;
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

  /** Time between two looks at connections that nobody polls, until they rest. */
  private static final Duration IDLE_LOOK = Duration.ofMillis(100);

  private static final List<Path> PEER_MEMORY =
      List.of(
          Path.of("/sys/module/nvidia_peermem"),
          Path.of("/sys/kernel/mm/memory_peers/nv_mem/version"));

  private final NetContext context;
  private final IbSettings settings;
  private final OpenConnections opened = new OpenConnections();
  private final RestingWatch watch;
  private volatile ControlPort port;
  private List<LocalNic> nics;
  private List<NetDevice> devices;
  private boolean closed;

  IbNet(NetContext context) {
    this.context = context;
    settings = IbSettings.of(context);
    watch =
        new RestingWatch(
            "nccl4j-ib-watch", settings.failover(), IDLE_LOOK, this::pollPort, this::listening);
  }

  /** Returns the listening socket of the control connections; null if it is closed. */
  private SelectableChannel listening() {
    ControlPort open = port;
    return open == null ? null : open.channel();
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
    List<LocalNic> found = find(settings);
    if (found.isEmpty()) {
      throw new SystemErrorException(
          ErrorId.INFINIBAND,
          "InfiniBand: no port can be used any more",
          "run ./nccl doctor to see what changed");
    }
    nics = found;
    devices = found.stream().map(nic -> describe(nic, settings)).toList();
  }

  private static List<LocalNic> find(IbSettings settings) {
    List<LocalNic> found = new ArrayList<>();
    List<IbPort> usable = IbDevices.find(Verbs.load(settings.library()), settings).usable();
    for (List<IbPort> group : settings.merge().groups(usable)) {
      List<LocalQpInfo> ports = new ArrayList<>();
      for (IbPort port : group) {
        ports.add(new LocalQpInfo(port, GidChoice.choose(port, settings)));
      }
      found.add(new LocalNic(ports));
    }
    return List.copyOf(found);
  }

  /**
   * The devices that communicators with these settings would use.
   *
   * @throws org.nccl4j.device.NcclException if the library is not there or a port cannot be used
   */
  static List<NetDevice> devices(IbSettings settings) {
    return find(settings).stream().map(nic -> describe(nic, settings)).toList();
  }

  private static NetDevice describe(LocalNic nic, IbSettings settings) {
    Set<NetDevice.Pointers> pointers = EnumSet.of(NetDevice.Pointers.HOST);
    if (PEER_MEMORY.stream().anyMatch(Files::exists)) {
      pointers.add(NetDevice.Pointers.CUDA);
    }
    if (nic.ports().stream().allMatch(each -> takesDmaBufs(each.port(), settings))) {
      pointers.add(NetDevice.Pointers.DMA_BUF);
    }
    IbPort first = nic.ports().get(0).port();
    long most =
        nic.ports().stream().mapToLong(each -> each.port().maxMessage()).min().orElseThrow();
    return new NetDevice(
        nic.name(),
        first.pciPath(),
        first.guid(),
        first.port(),
        nic.megabits(),
        LATENCY_MICROS,
        pointers,
        ClearToSend.MAX_RECEIVES,
        (int) Math.min(most, MOST_BYTES));
  }

  private static boolean takesDmaBufs(IbPort port, IbSettings settings) {
    try (OpenDevice device = OpenDevice.of(settings, port.device())) {
      return device.verbs().takesDmaBufs(device.domain());
    }
  }

  private LocalPorts end(int device) {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "the InfiniBand network is used after close",
          "close it after its last use");
    }
    look();
    if (device < 0 || device >= nics.size()) {
      throw new InvalidArgumentException(
          ErrorId.DEVICE,
          "there is no InfiniBand device %d; there are %d".formatted(device, nics.size()),
          "pass an index into devices()");
    }
    return LocalPorts.from(nics, device);
  }

  @Override
  public boolean carriesNotes() {
    return true;
  }

  /** {@inheritDoc} The control connections of both; devices are open once for all. */
  @Override
  public int descriptors(int pairs) {
    return 2 * pairs;
  }

  @Override
  public Optional<String> unprotected() {
    return Optional.of("the NIC moves them");
  }

  @Override
  public NetListener listen(int device) {
    LocalPorts at = end(device);
    try {
      List<InetAddress> addresses = ControlAddresses.of(context, at.home().gids());
      int ports = at.home().ports().size();
      IbHandle handle = port == null ? null : port.await(settings.queuePairs(), ports, addresses);
      if (handle == null) {
        port = new ControlPort(context);
        handle = port.await(settings.queuePairs(), ports, addresses);
      }
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
    int width = Math.max(ports.home().ports().size(), to.ports());
    int wanted = Math.max(settings.queuePairs(), to.queuePairs());
    int pairs = width * Math.min(wanted, IbSettings.MAX_QUEUE_PAIRS / width);
    return opened.add(
        new IbSender(
            settings,
            ports,
            pairs,
            width,
            context.rank(),
            watch,
            place ->
                place == 0
                    ? new ControlDialer(to, place, context)
                    : ControlDialer.replacing(
                        to, place, context, settings.failover(), System::nanoTime)));
  }

  @Override
  public void close() {
    closed = true;
    CloseAll all = new CloseAll();
    all.take(watch::close);
    all.take(opened::close);
    if (port != null) {
      all.take(port::close);
    }
    all.end();
  }
}
