package org.nccl4j.api.plan;

import java.util.Optional;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.kernel.Nvls;

/**
 * What all ranks know alike of each other and their devices, for choosing algorithms.
 *
 * @param nRanks how many
 * @param kind of device that all have
 * @param model of device that all have, such as "NVIDIA H200"; empty if they differ
 * @param reach whether every rank loads and stores every other's memory, without a proxy
 * @param nvlink whether all GPUs do so over NVLink, which keeps stores of 128 bytes whole
 * @param spread over hosts
 */
public record RankFacts(
    int nRanks, Device.Kind kind, String model, boolean reach, boolean nvlink, Spread spread) {
  /** Ranks of one host, with memory in common. */
  RankFacts(int nRanks, Device.Kind kind, String model, boolean reach, boolean nvlink) {
    this(nRanks, kind, model, reach, nvlink, Spread.together(nRanks));
  }

  /** With NVLS, unless that is null. */
  CostModel costs(Nvls nvls) {
    return nvls == null
        ? costs()
        : new NvlsCostModel(
            costs(), kind == Device.Kind.HOST, nvls.layout(), nvls.multicast().emulated());
  }

  /** The same of some of the ranks, which are spread over some of the hosts. */
  public RankFacts of(int some, int hosts, int mostRanks) {
    Spread theirs = new Spread(hosts, mostRanks, spread.carried());
    return new RankFacts(some, kind, model, reach, nvlink, theirs);
  }

  DirectCosts directCosts() {
    return kind == Device.Kind.HOST
        ? new HostDirectCosts(nRanks, Runtime.getRuntime().availableProcessors())
        : new GpuDirectCosts(model, nRanks, CudaDevice.lineData(nRanks));
  }

  CostModel costs() {
    if (kind == Device.Kind.HOST && spread.carried()) {
      return new NetCostModel(nRanks, spread);
    }
    if (kind == Device.Kind.HOST) {
      return new HostCostModel(nRanks, Runtime.getRuntime().availableProcessors());
    }
    GpuCostModel formula = new GpuCostModel(nRanks, reach, nvlink);
    Optional<MeasuredCosts> measured =
        reach && nvlink ? MeasuredCosts.find(model, nRanks) : Optional.empty();
    return measured.<CostModel>map(costs -> costs.over(formula)).orElse(formula);
  }
}
