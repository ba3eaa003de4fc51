package org.nccl4j.device.cuda;

import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverStart;
import org.nccl4j.device.cuda.nvml.Nvml;

/** The GPUs of this process, or the reason why there are none. */
public final class CudaDevices {
  private static CudaDevices found;

  private final List<CudaDevice> devices;
  private final Optional<String> absence;

  private CudaDevices(List<CudaDevice> devices, Optional<String> absence) {
    this.devices = devices;
    this.absence = absence;
  }

  /**
   * Looks for the driver and its devices; the same answer at every call. Makes no context: that
   * happens when a device is first used.
   */
  public static synchronized CudaDevices probe() {
    if (found == null) {
      found = look();
    }
    return found;
  }

  private static CudaDevices look() {
    Optional<String> absence = DriverStart.absence();
    if (absence.isPresent()) {
      return new CudaDevices(List.of(), absence);
    }
    int count = CudaLibrary.deviceCount();
    if (count == 0) {
      return new CudaDevices(
          List.of(),
          Optional.of("the driver sees no GPU; look at nvidia-smi -L and at CUDA_VISIBLE_DEVICES"));
    }
    List<CudaDevice> devices = IntStream.range(0, count).mapToObj(CudaDevice::new).toList();
    Nvml.askAhead(
        devices.stream().map(CudaDevice::pciBusId).toList(),
        () -> devices.forEach(device -> device.gpu().fabricHandles().absence()));
    return new CudaDevices(devices, absence);
  }

  /** All devices, by number; empty where there are none. */
  public List<CudaDevice> list() {
    return devices;
  }

  /** The device of an {@link CudaDevice#id}; empty if this process does not see it. */
  public Optional<CudaDevice> find(String id) {
    return devices.stream().filter(device -> device.id().equals(id)).findFirst();
  }

  /** Why there are no devices and what to do about it; empty where there are some. */
  public Optional<String> absence() {
    return absence;
  }

  /**
   * One device.
   *
   * @throws InvalidUsageException if this machine has none, with the reason
   * @throws InvalidArgumentException if there is none of that number
   */
  public CudaDevice device(int index) {
    if (absence.isPresent()) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "there is no CUDA device here: " + absence.get(),
          "repair that, or use the host device");
    }
    if (index < 0 || index >= devices.size()) {
      throw new InvalidArgumentException(
          ErrorId.DEVICE,
          "there is no CUDA device %d: this process sees %d".formatted(index, devices.size()),
          "use a number from 0 to " + (devices.size() - 1) + ", or look at CUDA_VISIBLE_DEVICES");
    }
    return devices.get(index);
  }
}
