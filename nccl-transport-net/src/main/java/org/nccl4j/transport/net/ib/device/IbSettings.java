package org.nccl4j.transport.net.ib.device;

import java.time.Duration;
import org.nccl4j.api.settings.InfiniBandSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.device.InvalidArgumentException;

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
 * @param merge NCCL_IB_MERGE_NICS, NCCL_NET_MERGE_LEVEL, NCCL_NET_FORCE_MERGE: which ports are one
 *     device
 * @param pkeyIndex NCCL_IB_PKEY: index of the partition key
 * @param failover NCCL4J_NET_FAILOVER_TIMEOUT: longest time in which other queue pairs may take
 *     over; zero for no failover, and if NCCL_IB_RESILIENCY_PORT_FAILOVER=0
 * @param returns NCCL_IB_RESILIENCY_PORT_RECOVERY: whether a connection returns to its first port
 * @param returnDelayNanos NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY: time before the first
 *     return
 * @param relaxed NCCL_IB_PCI_RELAXED_ORDERING: whether PCI Express may write received data in
 *     another order than they came in
 * @param adaptiveRouting NCCL_IB_ADAPTIVE_ROUTING: 1 for all ports, 0 for none, less for those of
 *     InfiniBand
 * @param adaptiveThreshold NCCL_IB_AR_THRESHOLD: bytes up to which there is none
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
    NicMerge merge,
    int pkeyIndex,
    Duration failover,
    boolean returns,
    long returnDelayNanos,
    boolean relaxed,
    int adaptiveRouting,
    int adaptiveThreshold,
    String library) {
  /** Largest number of queue pairs: a handle and a description of an end have room for as many. */
  public static final int MAX_QUEUE_PAIRS = 128;

  /**
   * The values of the settings.
   *
   * @throws InvalidArgumentException naming the setting with a wrong value
   */
  public static IbSettings of(SettingValues values) {
    return new IbSettings(
        values.get(InfiniBandSettings.NCCL_IB_DISABLE),
        HcaFilter.parse(values.get(InfiniBandSettings.NCCL_IB_HCA)),
        values.get(InfiniBandSettings.NCCL_IB_GID_INDEX),
        values.get(InfiniBandSettings.NCCL_IB_ROUTABLE_FLID_GID_INDEX),
        Math.max(0, values.get(InfiniBandSettings.NCCL_IB_TC)),
        Math.max(0, values.get(InfiniBandSettings.NCCL_IB_SL)),
        values.get(InfiniBandSettings.NCCL_IB_TIMEOUT),
        values.get(InfiniBandSettings.NCCL_IB_RETRY_CNT),
        values.get(InfiniBandSettings.NCCL_IB_QPS_PER_CONNECTION),
        values.get(InfiniBandSettings.NCCL_IB_SPLIT_DATA_ON_QPS),
        NicMerge.of(values),
        values.get(InfiniBandSettings.NCCL_IB_PKEY),
        values.get(InfiniBandSettings.NCCL_IB_RESILIENCY_PORT_FAILOVER)
            ? values.get(Settings.NCCL4J_NET_FAILOVER_TIMEOUT)
            : Duration.ZERO,
        values.get(InfiniBandSettings.NCCL_IB_RESILIENCY_PORT_RECOVERY),
        1_000_000L * values.get(InfiniBandSettings.NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY),
        values.get(InfiniBandSettings.NCCL_IB_PCI_RELAXED_ORDERING) != 0,
        values.get(InfiniBandSettings.NCCL_IB_ADAPTIVE_ROUTING),
        values.get(InfiniBandSettings.NCCL_IB_AR_THRESHOLD),
        values.get(InfiniBandSettings.NCCL_IBVERBS_LIB));
  }

  /**
   * Returns the most bytes that are written with their immediate: switches that route adaptively
   * keep the packets of such a write in order, and spread those of a write without one.
   *
   * @param ethernet whether the port is RoCE
   */
  public int mostWithImmediate(boolean ethernet) {
    boolean routed = adaptiveRouting < 0 ? !ethernet : adaptiveRouting > 0;
    return routed ? adaptiveThreshold : Integer.MAX_VALUE;
  }

  /** Seconds that an adapter tries before it gives a packet up. */
  public double patienceSeconds() {
    return 4.096e-6 * Math.pow(2, timeout) * (retries + 1);
  }
}
