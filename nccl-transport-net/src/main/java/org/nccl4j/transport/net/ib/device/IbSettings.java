package org.nccl4j.transport.net.ib.device;

import java.util.Locale;
import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.transport.net.ib.bind.VerbsFunctions;

/**
 * The settings of InfiniBand, by NCCL's names and with its defaults.
 *
 * @param disabled NCCL_IB_DISABLE
 * @param hca NCCL_IB_HCA: which devices and ports
 * @param gidIndex NCCL_IB_GID_INDEX; -1 to choose
 * @param routedGidIndex NCCL_IB_ROUTABLE_FLID_GID_INDEX: where an InfiniBand port may have an
 *     address that other subnets reach
 * @param trafficClass NCCL_IB_TC, 0 to 255: DSCP and ECN of RoCE packets
 * @param serviceLevel NCCL_IB_SL, 0 to 15
 * @param timeout NCCL_IB_TIMEOUT, 1 to 31: a packet is sent again after 4.096 us times 2 to this
 * @param retries NCCL_IB_RETRY_CNT, 0 to 7: how often it is sent again
 * @param queuePairs NCCL_IB_QPS_PER_CONNECTION, 1 to 128
 * @param split NCCL_IB_SPLIT_DATA_ON_QPS: each message over all queue pairs, not one after the
 *     other
 * @param pkeyIndex NCCL_IB_PKEY: index of the partition key
 * @param library NCCL_IBVERBS_LIB: file name or path of libibverbs
 */
public record IbSettings(
    boolean disabled,
    HcaFilter hca,
    int gidIndex,
    int routedGidIndex,
    int trafficClass,
    int serviceLevel,
    int timeout,
    int retries,
    int queuePairs,
    boolean split,
    int pkeyIndex,
    String library) {
  /** Largest number of queue pairs: a handle and a description of an end have room for as many. */
  public static final int MAX_QUEUE_PAIRS = 128;

  /**
   * From the values that are set.
   *
   * @throws InvalidArgumentException naming the setting that has none of its values
   */
  public static IbSettings of(Function<String, Optional<String>> values) {
    return new IbSettings(
        flag(values, "NCCL_IB_DISABLE"),
        HcaFilter.parse(values.apply("NCCL_IB_HCA").orElse("")),
        number(values, "NCCL_IB_GID_INDEX", -1, -1, 1023),
        number(values, "NCCL_IB_ROUTABLE_FLID_GID_INDEX", 1, 0, 1023),
        Math.max(0, number(values, "NCCL_IB_TC", -1, -1, 255)),
        Math.max(0, number(values, "NCCL_IB_SL", -1, -1, 15)),
        number(values, "NCCL_IB_TIMEOUT", 20, 1, 31),
        number(values, "NCCL_IB_RETRY_CNT", 7, 0, 7),
        number(values, "NCCL_IB_QPS_PER_CONNECTION", 1, 1, MAX_QUEUE_PAIRS),
        flag(values, "NCCL_IB_SPLIT_DATA_ON_QPS"),
        number(values, "NCCL_IB_PKEY", 0, 0, 0xffff),
        values.apply("NCCL_IBVERBS_LIB").orElse(VerbsFunctions.LIBRARY));
  }

  /** Seconds that an adapter tries before it gives a packet up. */
  public double patienceSeconds() {
    return 4.096e-6 * Math.pow(2, timeout) * (retries + 1);
  }

  private static boolean flag(Function<String, Optional<String>> values, String name) {
    String text = values.apply(name).orElse("0").toLowerCase(Locale.ROOT);
    return switch (text) {
      case "1", "true", "yes", "on" -> true;
      case "0", "false", "no", "off" -> false;
      default -> throw wrong(name, text, "0 or 1", null);
    };
  }

  private static int number(
      Function<String, Optional<String>> values, String name, int byDefault, int least, int most) {
    Optional<String> text = values.apply(name);
    if (text.isEmpty()) {
      return byDefault;
    }
    try {
      int value = Integer.decode(text.get());
      if (value >= least && value <= most) {
        return value;
      }
    } catch (NumberFormatException e) {
      throw wrong(name, text.get(), "a number of %d to %d".formatted(least, most), e);
    }
    throw wrong(name, text.get(), "a number of %d to %d".formatted(least, most), null);
  }

  private static InvalidArgumentException wrong(
      String name, String text, String allowed, Throwable cause) {
    return new InvalidArgumentException(
        ErrorId.SETTING,
        "the setting " + name + " is \"" + text + "\", which is none of its values",
        "set " + name + " to " + allowed + ", or unset it",
        cause);
  }
}
