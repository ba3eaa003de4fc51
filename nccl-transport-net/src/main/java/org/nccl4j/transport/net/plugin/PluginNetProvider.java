package org.nccl4j.transport.net.plugin;

import java.lang.System.Logger;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;

/**
 * A network plug-in that was made for NCCL: a library libnccl-net-NAME.so with the functions of
 * ncclNet, versions 8 to 11, such as aws-ofi-nccl. NCCL_NET_PLUGIN names it. The ranks of a
 * communicator use it with each other if they have the same one.
 */
public final class PluginNetProvider implements NetProvider {
  private static final Logger LOG = DebugLog.of("NET");

  /** Before InfiniBand: as in NCCL, an installed plug-in is meant to be used. */
  private static final int PRIORITY = 300;

  private static final Set<String> WARNED = ConcurrentHashMap.newKeySet();

  /** Called by {@link java.util.ServiceLoader}. */
  public PluginNetProvider() {}

  @Override
  public String name() {
    return "Plugin";
  }

  @Override
  public int priority() {
    return PRIORITY;
  }

  @Override
  public Support support(NetContext context) {
    String setting = context.get(Settings.NCCL_NET_PLUGIN);
    PluginLibrary.Found found = PluginLibrary.find(setting);
    String why = String.join("; ", found.reasons());
    if (found.library().isEmpty()) {
      return setting.isBlank()
          ? Support.no("there is no libnccl-net.so, and NCCL_NET_PLUGIN names no plug-in")
          : unused(setting, why);
    }
    try (Net net = new PluginNet(found.library().get(), context)) {
      return Support.yes(
          found.library().get().table()
              + ": "
              + net.devices().stream().map(NetDevice::name).collect(Collectors.joining(", ")));
    } catch (NcclException e) {
      return unused(setting, e.problem());
    }
  }

  /** Warns once of a plug-in that is asked for and does not work. */
  private static Support unused(String setting, String why) {
    if (!setting.equalsIgnoreCase("none") && WARNED.add(why)) {
      LOG.log(
          Logger.Level.WARNING,
          "The network plug-in is not used: {0}. Another network is used instead; set"
              + " NCCL_NET=Plugin to get an error, or NCCL_NET_PLUGIN=none to use no plug-in",
          why);
    }
    return Support.no(why);
  }

  @Override
  public Net open(NetContext context) {
    return new PluginNet(
        PluginLibrary.find(context.get(Settings.NCCL_NET_PLUGIN)).library().orElseThrow(), context);
  }
}
