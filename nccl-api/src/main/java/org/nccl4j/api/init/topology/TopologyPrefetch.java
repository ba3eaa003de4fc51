package org.nccl4j.api.init.topology;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * Searches the graphs of this machine while the first communicator of a process examines its
 * networks and runs the bootstrap. The search is the longest part of the first creation of a JVM.
 * It assumes the most frequent case: GPUs in their order, one for each rank, and no NIC that
 * reaches their memory. If the ranks differ, the result is not used, but the code has been loaded
 * and run.
 */
public final class TopologyPrefetch {
  private static final System.Logger LOG = DebugLog.of("GRAPH");

  /** The ranks' devices of those that were begun. */
  private static final Set<List<CudaDevice>> BEGUN = ConcurrentHashMap.newKeySet();

  private TopologyPrefetch() {}

  /**
   * Begins it on a thread of its own where a communicator of GPUs is made; only the first call of a
   * process for the same devices has an effect. Returns at once.
   *
   * @param devices of this process's ranks; a single one stands for all that the driver shows
   */
  public static void begin(List<Device> devices, Settings settings) {
    boolean cuda = devices.stream().allMatch(device -> device.kind() == Device.Kind.CUDA);
    if (!cuda || devices.isEmpty() || settings.isSet(Settings.NCCL_TOPO_FILE)) {
      return;
    }
    List<? extends Device> likely = devices.size() > 1 ? devices : CudaDevices.probe().list();
    List<CudaDevice> gpus = likely.stream().map(CudaDevice.class::cast).toList();
    if (!BEGUN.add(gpus)) {
      return;
    }
    gpus.forEach(device -> device.gpu().gpuDirect()); // so that the thread need not ask the driver
    Thread searching = new Thread(() -> search(gpus, settings), "nccl4j-graphs");
    searching.setDaemon(true);
    searching.start();
  }

  private static void search(List<CudaDevice> gpus, Settings settings) {
    try {
      if (Nvml.probe().absence().isEmpty()) {
        CommTopology topology =
            ChannelGraphs.topology(settings, TopologyExchange.ahead(gpus, settings));
        ChannelGraphs.ahead(topology);
        CommunicatorProfile.readMeasured(gpus.get(0).name(), gpus.size(), topology);
      }
    } catch (RuntimeException e) {
      LOG.log(Level.DEBUG, "The topology search in the background failed: {0}", e);
    }
  }
}
