package org.nccl4j.transport.net.ib;

import java.lang.System.Logger;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.bind.VerbsFunctions;
import org.nccl4j.transport.net.ib.device.GidChoice;
import org.nccl4j.transport.net.ib.device.IbDevices;
import org.nccl4j.transport.net.ib.device.IbPort;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;
import org.nccl4j.transport.net.ib.verbs.Gid;
import org.nccl4j.transport.net.ib.verbs.LockedMemory;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/** InfiniBand and RoCE by libibverbs. */
public final class IbProvider implements NetProvider {
  private static final Logger LOG = DebugLog.of("NET");
  private static final int PRIORITY = 200;
  private static final int PROBE_BYTES = 4 << 20;
  private static final Set<String> WARNED = ConcurrentHashMap.newKeySet();

  /** Called by the service loader. */
  public IbProvider() {}

  @Override
  public String name() {
    return "IB";
  }

  @Override
  public int priority() {
    return PRIORITY;
  }

  /**
   * {@inheritDoc}
   *
   * @throws InvalidArgumentException if a setting has a wrong value, or no port has a GID at the
   *     index that is set
   */
  @Override
  public Support support(NetContext context) {
    IbSettings settings = IbSettings.of(context);
    if (settings.disabled()) {
      return Support.no("NCCL_IB_DISABLE=1 forbids it");
    }
    // Loading the library is slow, and is useless where the operating system has no device for it.
    if (settings.library().equals(VerbsFunctions.LIBRARY) && !IbDevices.kernelHasDevices()) {
      return Support.no(
          "the kernel has no InfiniBand device: load the adapter's driver; in a container see that"
              + " it shows /sys/class/infiniband");
    }
    Verbs verbs;
    try {
      verbs = Verbs.load(settings.library());
    } catch (SystemErrorException | LinkageError e) {
      String why =
          "there is no %s: apt-get install libibverbs1 ibverbs-providers"
              .formatted(settings.library());
      return IbDevices.kernelHasDevices() ? unused(why, context) : Support.no(why);
    }
    try {
      IbDevices devices = IbDevices.find(verbs, settings);
      return devices.usable().isEmpty()
          ? none(devices, settings, context)
          : probe(devices.usable(), settings);
    } catch (InvalidArgumentException e) {
      throw e;
    } catch (NcclException e) {
      return unused(e.problem() + "; " + e.remedy(), context);
    }
  }

  private static Support none(IbDevices devices, IbSettings settings, NetContext context) {
    boolean leftOut =
        settings.hca().exclude()
            && devices.all().stream()
                .noneMatch(port -> settings.hca().allows(port.device(), port.port()));
    if (leftOut && !devices.all().isEmpty()) {
      return Support.no(devices.whyNone());
    }
    return devices.rejected().isEmpty() && !IbDevices.kernelHasDevices()
        ? Support.no(devices.whyNone())
        : unused(devices.whyNone(), context);
  }

  /** Chooses addresses and registers some memory, to fail here and not in the middle. */
  private static Support probe(List<IbPort> ports, IbSettings settings) {
    List<String> found = new ArrayList<>();
    for (List<IbPort> nic : settings.merge().groups(ports)) {
      List<String> merged = new ArrayList<>();
      for (IbPort port : nic) {
        Gid gid = GidChoice.choose(port, settings);
        merged.add("%s GID %s".formatted(port.name(), gid));
      }
      found.add(String.join(" + ", merged));
    }
    try (OpenDevice device = OpenDevice.of(settings, ports.get(0).device())) {
      if (LockedMemory.limit().isPresent()) {
        Offheap block = Offheap.onPage(PROBE_BYTES);
        device.cache().register(block, block.address(), PROBE_BYTES).close();
        Reference.reachabilityFence(block);
      }
    }
    return Support.yes(String.join(", ", found));
  }

  /** There is hardware, but it cannot be used: said aloud, since sockets are far slower. */
  private static Support unused(String why, NetContext context) {
    if (WARNED.add(why)) {
      LOG.log(
          Logger.Level.WARNING,
          "InfiniBand is there but not used; {0}. {1}",
          context
              .find(Settings.NCCL_NET)
              .filter(net -> !net.isEmpty())
              .map(net -> "NCCL_NET=" + net + " forbids another network")
              .orElse("network Socket is used instead, or set NCCL_NET=IB to have an error"),
          why);
    }
    return Support.no(why);
  }

  @Override
  public Net open(NetContext context) {
    return new IbNet(context);
  }
}
