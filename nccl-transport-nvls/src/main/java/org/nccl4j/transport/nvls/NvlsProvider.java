package org.nccl4j.transport.nvls;

import java.util.Locale;
import java.util.Optional;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.nccl4j.api.spi.Multicast;
import org.nccl4j.api.spi.MulticastProvider;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.AlgorithmFilter;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.MulticastObject.Form;

/**
 * NVLS by the switch or emulated, as NCCL4J_NVLS_MODE says: auto has it where NCCL_ALGO names it.
 * With NCCL_NVLS_ENABLE=0 no rank offers the switch, so that none of the driver's multicast
 * functions is called.
 */
public final class NvlsProvider implements MulticastProvider {
  /** Zero in any spelling: 00 forbids as 0 does. */
  private static final Pattern NOUGHT = Pattern.compile("[+-]?0+");

  /** Called by {@link java.util.ServiceLoader}. */
  public NvlsProvider() {}

  @Override
  public String name() {
    return "NVLS";
  }

  @Override
  public Offer offer(Device device, Function<String, Optional<String>> setting) {
    String mode = text(setting, "NCCL4J_NVLS_MODE", "auto");
    return switch (mode) {
      case "off" -> none(false, "NCCL4J_NVLS_MODE is off");
      case "emulated" -> emulated();
      case "hardware" -> driver(device, setting);
      default -> automatic(device, setting);
    };
  }

  private static Offer automatic(Device device, Function<String, Optional<String>> setting) {
    AlgorithmFilter filter = AlgorithmFilter.parse(text(setting, "NCCL_ALGO", ""), "");
    if (!filter.demandsAnywhere(Algorithm.NVLS) && !filter.demandsAnywhere(Algorithm.NVLS_TREE)) {
      return none(false, "neither NCCL_ALGO nor NCCL4J_NVLS_MODE asks for it");
    }
    return device.kind() == Device.Kind.HOST ? emulated() : driver(device, setting);
  }

  private static Offer driver(Device device, Function<String, Optional<String>> setting) {
    if (NOUGHT.matcher(text(setting, "NCCL_NVLS_ENABLE", "2")).matches()) {
      return none(true, "NCCL_NVLS_ENABLE=0 forbids the driver's multicast objects");
    }
    String absence = ((KernelDevice) device).multicastAbsence();
    return absence != null
        ? none(true, absence)
        : new Offer(Optional.of(Form.DRIVER), true, "the driver has multicast objects");
  }

  private static Offer emulated() {
    return new Offer(Optional.of(Form.EMULATED), true, "emulated");
  }

  private static Offer none(boolean wanted, String reason) {
    return new Offer(Optional.empty(), wanted, reason);
  }

  private static String text(
      Function<String, Optional<String>> setting, String name, String byDefault) {
    return setting.apply(name).map(t -> t.trim().toLowerCase(Locale.ROOT)).orElse(byDefault);
  }

  @Override
  public Multicast open(TransportContext context, Team team, Form form, Exchange exchange) {
    return new NvlsGroup(context, team, form, new Agreement(exchange)).make();
  }
}
