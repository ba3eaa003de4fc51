package org.nccl4j.transport.nvls;

import java.util.Optional;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.MulticastObject.Form;
import org.nccl4j.operation.Algorithm;

/**
 * NVLS by the switch or emulated, as NCCL4J_NVLS_MODE says: auto has the switch on GPUs, and the
 * emulation on the host where NCCL_ALGO names NVLS. With NCCL_NVLS_ENABLE=0 no rank offers the
 * switch, so that none of the driver's multicast functions is called.
 */
public final class NvlsProvider implements MulticastProvider {
  /** Called by {@link java.util.ServiceLoader}. */
  public NvlsProvider() {}

  @Override
  public String name() {
    return "NVLS";
  }

  @Override
  public Offer offer(Device device, SettingValues settings) {
    String mode = settings.get(Settings.NCCL4J_NVLS_MODE);
    return switch (mode) {
      case "off" -> none(false, "NCCL4J_NVLS_MODE is off");
      case "emulated" -> emulated();
      case "hardware" -> driver(device, settings, true);
      default -> automatic(device, settings);
    };
  }

  private static Offer automatic(Device device, SettingValues settings) {
    AlgorithmFilter filter = AlgorithmFilter.of(settings);
    boolean demanded = filter.demandsNvls();
    if (device.kind() == Device.Kind.HOST) {
      return demanded
          ? emulated()
          : none(false, "neither NCCL_ALGO nor NCCL4J_NVLS_MODE asks for the emulation");
    }
    if (!demanded && !filter.allows(Algorithm.NVLS)) {
      return none(false, "NCCL_ALGO leaves NVLS out");
    }
    return driver(device, settings, demanded || settings.get(Settings.NCCL_NVLS_ENABLE) == 1);
  }

  private static Offer driver(Device device, SettingValues settings, boolean wanted) {
    if (settings.get(Settings.NCCL_NVLS_ENABLE) == 0) {
      return none(wanted, "NCCL_NVLS_ENABLE=0 forbids the driver's multicast objects");
    }
    String absence = ((KernelDevice) device).multicastAbsence();
    return absence != null
        ? none(wanted, absence)
        : new Offer(Optional.of(Form.DRIVER), wanted, "the driver has multicast objects");
  }

  private static Offer emulated() {
    return new Offer(Optional.of(Form.EMULATED), true, "emulated");
  }

  private static Offer none(boolean wanted, String reason) {
    return new Offer(Optional.empty(), wanted, reason);
  }

  @Override
  public Outline outline(TransportContext context, Team team, Form form, Exchange exchange) {
    return new NvlsGroup(context, team, form, new CollectiveSteps(exchange)).outline();
  }

  @Override
  public Multicast open(TransportContext context, Team team, Form form, Exchange exchange) {
    return new NvlsGroup(context, team, form, new CollectiveSteps(exchange)).make();
  }
}
