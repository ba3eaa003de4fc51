package org.nccl4j.api;

import java.util.HashMap;
import java.util.Map;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * Options of single operations, for {@link Communicator#withOptions}. Missing options are the
 * communicator's. Immutable; each {@code with} method returns a changed copy.
 */
public final class CallOptions {
  private static final CallOptions DEFAULTS = new CallOptions(Map.of());

  private final Map<String, String> settings;

  private CallOptions(Map<String, String> settings) {
    this.settings = settings;
  }

  /** The communicator's options. */
  public static CallOptions defaults() {
    return DEFAULTS;
  }

  /** The algorithms to choose from, in the syntax of NCCL_ALGO, such as "Ring". */
  public CallOptions withAlgorithm(String names) {
    return with(Settings.NCCL_ALGO.name(), names);
  }

  /** The protocols to choose from, in the syntax of NCCL_PROTO, such as "Simple". */
  public CallOptions withProtocol(String names) {
    return with(Settings.NCCL_PROTO.name(), names);
  }

  /** The most blocks (CTAs) on a GPU, at least 1. The host device has none. */
  public CallOptions withMaxCtas(int ctas) {
    return with(Settings.NCCL_MAX_CTAS.name(), ctas("most", ctas));
  }

  /** The fewest blocks (CTAs) on a GPU, at least 1. The host device has none. */
  public CallOptions withMinCtas(int ctas) {
    return with(Settings.NCCL_MIN_CTAS.name(), ctas("fewest", ctas));
  }

  /** The use of GPUs beside a program's own kernels. */
  public CallOptions withCtaPolicy(CommunicatorConfig.CtaPolicy policy) {
    return with(
        PlanSettings.NCCL_CTA_POLICY.name(), Arguments.notNull(policy, "policy of CTAs").setting());
  }

  private CallOptions with(String name, String value) {
    Map<String, String> changed = new HashMap<>(settings);
    changed.put(name, Arguments.notNull(value, "value of " + name));
    return new CallOptions(Map.copyOf(changed));
  }

  Map<String, String> settings() {
    return settings;
  }

  static String ctas(String which, int ctas) {
    if (ctas < 1) {
      throw new InvalidArgumentException(
          ErrorId.SETTING, "the %s CTAs are %d".formatted(which, ctas), "pass 1 or more");
    }
    return Integer.toString(ctas);
  }
}
