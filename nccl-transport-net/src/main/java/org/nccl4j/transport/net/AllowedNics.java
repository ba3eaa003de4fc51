package org.nccl4j.transport.net;

import java.util.Arrays;
import org.nccl4j.api.settings.InfiniBandSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.wire.InterfaceFilter;
import org.nccl4j.transport.net.ib.device.HcaFilter;

/** The network cards that settings allow, as far as their names go. */
public final class AllowedNics {
  private AllowedNics() {}

  /** True if NCCL_NET, NCCL_IB_DISABLE and NCCL_IB_HCA allow a port of an InfiniBand device. */
  public static boolean allowsPort(SettingValues settings, String device, int port) {
    return names(settings, "IB")
        && !settings.get(InfiniBandSettings.NCCL_IB_DISABLE)
        && HcaFilter.parse(settings.get(InfiniBandSettings.NCCL_IB_HCA)).allows(device, port);
  }

  /** True if NCCL_NET and NCCL_SOCKET_IFNAME allow an interface. */
  public static boolean allowsInterface(SettingValues settings, String name) {
    return names(settings, "Socket")
        && new InterfaceFilter(settings.get(Settings.NCCL_SOCKET_IFNAME), "").allows(name);
  }

  private static boolean names(SettingValues settings, String network) {
    String wanted = settings.get(Settings.NCCL_NET);
    return wanted.isBlank()
        || Arrays.stream(wanted.split(","))
            .anyMatch(name -> name.strip().equalsIgnoreCase(network));
  }
}
