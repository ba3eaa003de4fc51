package org.nccl4j.spark;

import java.util.List;
import java.util.Map;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;

/**
 * Finds the device of a task: the host, or the GPU at the address that Spark has given the task.
 */
final class TaskDevice {
  private TaskDevice() {}

  /**
   * The device of a task.
   *
   * @throws NcclException naming the task, if Spark gave it no address or several, or if there is
   *     no GPU at its address
   */
  static Device of(StageTask task, RankOptions options) {
    return options
        .resource()
        .<Device>map(resource -> gpu(task, resource, address(task, resource)))
        .orElseGet(Devices::host);
  }

  private static String address(StageTask task, String resource) {
    Map<String, List<String>> all = task.addresses();
    List<String> addresses = all.getOrDefault(resource, List.of());
    if (addresses.isEmpty()) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s has no address of the resource \"%s\"; Spark gave it %s"
              .formatted(task.place(), resource, all.isEmpty() ? "no resources" : all),
          "set spark.executor.resource.%1$s.amount, spark.executor.resource.%1$s.discoveryScript"
                  .formatted(resource)
              + " and spark.task.resource.%s.amount=1, or give the RDD a ResourceProfile; for ranks"
                  .formatted(resource)
              + " without GPUs use RankOptions.host()");
    }
    if (addresses.size() > 1) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "%s has %d addresses of the resource \"%s\", %s, but a rank has one GPU"
              .formatted(task.place(), addresses.size(), resource, addresses),
          "set spark.task.resource.%s.amount=1 and use a partition for each GPU"
              .formatted(resource));
    }
    return addresses.get(0).strip();
  }

  private static CudaDevice gpu(StageTask task, String resource, String address) {
    CudaDevices gpus = Devices.cuda();
    try {
      if (address.matches("\\d{1,9}")) {
        return gpus.device(Integer.parseInt(address));
      }
      return gpus.list().stream()
          .filter(gpu -> address.equalsIgnoreCase(gpu.id()) || isAt(gpu, address))
          .findFirst()
          .orElseGet(() -> missing(gpus, address));
    } catch (NcclException e) {
      throw e.within(
          "%s has the address %s of the resource \"%s\": %s"
              .formatted(task.place(), address, resource, e.problem()));
    }
  }

  /** Instances of a GPU share its PCI address. */
  private static boolean isAt(CudaDevice gpu, String address) {
    return address.equalsIgnoreCase(gpu.pciBusId()) && gpu.id().equalsIgnoreCase(gpu.pciBusId());
  }

  private static CudaDevice missing(CudaDevices gpus, String address) {
    if (gpus.list().isEmpty()) {
      return gpus.device(0); // says why there are none
    }
    throw new InvalidUsageException(
        ErrorId.UNSUPPORTED,
        "no GPU of this process is %s; it sees %s"
            .formatted(address, gpus.list().stream().map(CudaDevice::id).toList()),
        "have the discovery script print the GPUs' numbers as CUDA counts them, or one of these");
  }
}
