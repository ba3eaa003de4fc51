package org.nccl4j.transport.net;

import java.util.LinkedHashMap;
import java.util.Map;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.transport.net.ib.IbReport;
import org.nccl4j.transport.net.memory.GpuDirectChoice;

/** A report of how data move between a GPU's memory and the NICs of this machine, for people. */
public final class GpuDirectReport {
  private static final Support NEAR = Support.yes("where NCCL_NET_GDR_LEVEL allows the path");

  private GpuDirectReport() {}

  /**
   * Returns the ends of sentences about the InfiniBand and RoCE devices, by name; empty without
   * any.
   *
   * @throws org.nccl4j.device.InvalidArgumentException if a setting has a wrong value
   */
  public static Map<String, String> of(CudaDevice gpu, SettingValues settings) {
    Map<String, String> found = new LinkedHashMap<>();
    for (NetDevice card : IbReport.devices(settings)) {
      GpuDirectChoice choice = GpuDirectChoice.of(gpu.gpu().gpuDirect(), card, settings, NEAR);
      found.put(card.name(), choice.describe());
    }
    return found;
  }
}
