package org.nccl4j.it.abi;

import org.nccl4j.api.settings.DropInSettings;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.settings.InfiniBandSettings;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.Setting;

/** The numbers of an ncclConfig_t, in the order in which the C side passes them on. */
enum ConfigField {
  BLOCKING(DropInSettings.NCCL_COMM_BLOCKING),
  CGA_CLUSTER_SIZE("cgaClusterSize", 0, 8, GpuSettings.NCCL_CGA_CLUSTER_SIZE),
  MIN_CTAS("minCTAs", 1, 64, Settings.NCCL_MIN_CTAS),
  MAX_CTAS("maxCTAs", 1, 64, Settings.NCCL_MAX_CTAS),
  TRAFFIC_CLASS(InfiniBandSettings.NCCL_IB_TC),
  CTA_POLICY(PlanSettings.NCCL_CTA_POLICY),
  NVLS_CTAS("nvlsCTAs", 1, 64, Settings.NCCL_NVLS_NCHANNELS),
  CHANNELS_PER_NET_PEER("nChannelsPerNetPeer", 1, 64, TopologySettings.NCCL_NCHANNELS_PER_NET_PEER);

  /** The value of a field that is not set, NCCL_CONFIG_UNDEF_INT. */
  static final int UNDEFINED = Integer.MIN_VALUE;

  private final String field;
  private final int least;
  private final int most;
  private final Setting<?> setting;

  /** A field whose values have a meaning of their own. */
  ConfigField(Setting<?> setting) {
    this("", Integer.MIN_VALUE, Integer.MAX_VALUE, setting);
  }

  /** A field with a least value, which stands for a greatest one if it is greater. */
  ConfigField(String field, int least, int most, Setting<?> setting) {
    this.field = field;
    this.least = least;
    this.most = most;
    this.setting = setting;
  }

  /** Throws if a field has a value that NCCL refuses. */
  static void checkAll(int[] numbers) {
    for (ConfigField each : values()) {
      if (each.isIn(numbers) && each.of(numbers) < each.least) {
        throw Wrong.argument(
            "%s of a configuration is %d".formatted(each.field, each.of(numbers)),
            "set %d or more, or NCCL_CONFIG_UNDEF_INT".formatted(each.least));
      }
    }
    if (MAX_CTAS.isIn(numbers) && MIN_CTAS.of(numbers) > MAX_CTAS.of(numbers)) {
      throw Wrong.argument(
          "minCTAs of a configuration is %d, and maxCTAs %d"
              .formatted(MIN_CTAS.of(numbers), MAX_CTAS.of(numbers)),
          "set minCTAs to maxCTAs or less");
    }
  }

  Setting<?> setting() {
    return setting;
  }

  /** True if the program has set the field. */
  boolean isIn(int[] numbers) {
    return numbers[ordinal()] != UNDEFINED;
  }

  /** True if the program has set the field and the user, who has precedence, not its setting. */
  boolean decides(int[] numbers, Settings users) {
    return isIn(numbers) && !users.isSet(setting);
  }

  int of(int[] numbers) {
    return numbers[ordinal()];
  }

  /** The value, at most the greatest, as NCCL bounds what programs ask for. */
  int bounded(int[] numbers) {
    return Math.min(of(numbers), most);
  }
}
