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
  CGA_CLUSTER_SIZE(GpuSettings.NCCL_CGA_CLUSTER_SIZE),
  MIN_CTAS(Settings.NCCL_MIN_CTAS),
  MAX_CTAS(Settings.NCCL_MAX_CTAS),
  TRAFFIC_CLASS(InfiniBandSettings.NCCL_IB_TC),
  CTA_POLICY(PlanSettings.NCCL_CTA_POLICY),
  NVLS_CTAS(Settings.NCCL_NVLS_NCHANNELS),
  CHANNELS_PER_NET_PEER(TopologySettings.NCCL_NCHANNELS_PER_NET_PEER);

  /** The value of a field that is not set, NCCL_CONFIG_UNDEF_INT. */
  static final int UNDEFINED = Integer.MIN_VALUE;

  private final Setting<?> setting;

  ConfigField(Setting<?> setting) {
    this.setting = setting;
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
}
