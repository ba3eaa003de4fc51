package org.nccl4j.it.abi;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.CommunicatorConfig.CtaPolicy;
import org.nccl4j.api.settings.DropInSettings;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.Settings;

/**
 * An ncclConfig_t.
 *
 * @param blocking false if calls that wait for other ranks return at once
 * @param communicator the rest
 */
record Config(boolean blocking, CommunicatorConfig communicator) {
  private static final Duration CREATION = Duration.ofMinutes(30);
  private static final Duration OPERATION = Duration.ofDays(1);
  private static final String SILENCE = "30m"; // of a process that a debugger has stopped

  /** NCCL's policies are bits: NCCL_CTA_POLICY_DEFAULT is 0, _EFFICIENCY 1, _ZERO 2. */
  private static final List<CtaPolicy> POLICIES =
      List.of(
          CtaPolicy.DEFAULT, CtaPolicy.EFFICIENCY, CtaPolicy.ZERO, CtaPolicy.EFFICIENCY_AND_ZERO);

  /**
   * A configuration with what the program has not set as it is in NCCL. As there, the user's
   * settings have precedence over the program's. NCCL waits for ranks without an end, so the
   * deadlines are long. Splits get connections of their own, since programs use communicators at
   * the same time and in any order, whatever splitShare says.
   *
   * @param numbers by {@link ConfigField}; null if the program has passed no configuration
   * @param names netName and commName, or null
   */
  static Config of(int[] numbers, String[] names) {
    return of(numbers, names, Settings.ofProcess(Map.of()));
  }

  static Config of(int[] numbers, String[] names, Settings users) {
    CommunicatorConfig config = defaults(users);
    if (numbers == null) {
      return new Config(users.get(DropInSettings.NCCL_COMM_BLOCKING), config);
    }
    ConfigField.checkAll(numbers);
    if (ConfigField.CGA_CLUSTER_SIZE.decides(numbers, users)) {
      config = config.withCgaClusterSize(ConfigField.CGA_CLUSTER_SIZE.bounded(numbers));
    }
    if (ConfigField.MIN_CTAS.decides(numbers, users)) {
      config = config.withMinCtas(ConfigField.MIN_CTAS.bounded(numbers));
    }
    if (ConfigField.MAX_CTAS.decides(numbers, users)) {
      config = config.withMaxCtas(ConfigField.MAX_CTAS.bounded(numbers));
    }
    if (ConfigField.TRAFFIC_CLASS.decides(numbers, users)) {
      config = config.withTrafficClass(trafficClass(ConfigField.TRAFFIC_CLASS.of(numbers)));
    }
    if (ConfigField.CTA_POLICY.decides(numbers, users)) {
      config = config.withCtaPolicy(policy(ConfigField.CTA_POLICY.of(numbers)));
    }
    if (ConfigField.NVLS_CTAS.decides(numbers, users)) {
      config = config.withNvlsCtas(ConfigField.NVLS_CTAS.bounded(numbers));
    }
    if (ConfigField.CHANNELS_PER_NET_PEER.decides(numbers, users)) {
      config = config.withChannelsPerNetPeer(ConfigField.CHANNELS_PER_NET_PEER.bounded(numbers));
    }
    return new Config(isBlocking(numbers, users), named(config, names, users));
  }

  /**
   * A configuration for a communicator that is made of another. Without one, the new communicator
   * has the other's; else the fields that the program leaves undefined have NCCL's values, whatever
   * the program has set for the other.
   */
  static Config of(int[] numbers, String[] names, Config parent) {
    if (numbers == null) {
      return new Config(parent.blocking, parent.communicator.withName(""));
    }
    Config given = of(numbers, names);
    CommunicatorConfig config = given.communicator;
    for (ConfigField each : ConfigField.values()) {
      String name = each.setting().name();
      if (!each.isIn(numbers) && parent.communicator.settings().containsKey(name)) {
        config = config.with(name, each.setting().defaultText());
      }
    }
    return new Config(given.blocking, config);
  }

  /** The byte of packets that NCCL makes of any number; -1 means none there too. */
  private static int trafficClass(int number) {
    return number == -1 ? number : number & 0xff;
  }

  private static CtaPolicy policy(int bits) {
    if (bits < 0 || bits >= POLICIES.size()) {
      throw Wrong.argument(
          "CTAPolicy of a configuration is " + bits,
          "set NCCL_CTA_POLICY_DEFAULT (0), NCCL_CTA_POLICY_EFFICIENCY (1), NCCL_CTA_POLICY_ZERO"
              + " (2), 3 for the last two, or NCCL_CONFIG_UNDEF_INT");
    }
    return POLICIES.get(bits);
  }

  /** NCCL's values of what neither the program nor the user has decided. */
  static CommunicatorConfig defaults() {
    return defaults(Settings.ofProcess(Map.of()));
  }

  private static CommunicatorConfig defaults(Settings settings) {
    CommunicatorConfig config = CommunicatorConfig.defaults();
    if (!settings.isSet(GpuSettings.NCCL_COMM_SPLIT_SHARE_RESOURCES)) {
      config = config.withSplitShare(false);
    }
    if (!settings.isSet(Settings.NCCL4J_INIT_TIMEOUT)) {
      config = config.withInitTimeout(CREATION);
    }
    if (!settings.isSet(Settings.NCCL4J_HEARTBEAT_TIMEOUT)) {
      config = config.with(Settings.NCCL4J_HEARTBEAT_TIMEOUT.name(), SILENCE);
    }
    return settings.isSet(Settings.NCCL4J_TIMEOUT)
        ? config
        : config.withOperationTimeout(OPERATION);
  }

  private static boolean isBlocking(int[] numbers, Settings users) {
    int blocking = ConfigField.BLOCKING.of(numbers);
    if (ConfigField.BLOCKING.isIn(numbers) && blocking != 0 && blocking != 1) {
      throw Wrong.argument(
          "blocking of a configuration is " + blocking, "set 0, 1 or NCCL_CONFIG_UNDEF_INT");
    }
    return ConfigField.BLOCKING.decides(numbers, users)
        ? blocking == 1
        : users.get(DropInSettings.NCCL_COMM_BLOCKING);
  }

  private static CommunicatorConfig named(
      CommunicatorConfig config, String[] names, Settings users) {
    boolean chosen = names[0] != null && !users.isSet(Settings.NCCL_NET);
    CommunicatorConfig named = chosen ? config.withNetName(names[0]) : config;
    return names[1] == null ? named : named.withName(names[1]);
  }
}
