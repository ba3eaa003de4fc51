import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;

/** Makes two communicators, and prints how long each took and the first one's processor time, in ms. */
public final class FirstCommunicator {
  private FirstCommunicator() {}

  /** Arguments: cuda or host, ranks. */
  public static void main(String[] arguments) {
    List<Device> devices =
        arguments[0].equals("cuda")
            ? List.copyOf(CudaDevices.probe().list())
            : Collections.nCopies(Integer.parseInt(arguments[1]), Devices.host());
    for (Device device : devices) {
      if (device instanceof CudaDevice gpu) {
        gpu.memoryInfo(); // makes the context
      }
    }
    OperatingSystemMXBean system =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = system.getProcessCpuTime();
    long start = System.nanoTime();
    List<Communicator> first = Communicator.initAll(devices);
    long made = System.nanoTime();
    cpu = system.getProcessCpuTime() - cpu;
    List<Communicator> second = Communicator.initAll(devices);
    System.out.printf(
        Locale.ROOT,
        "%.1f %.1f %.1f %d%n",
        (made - start) / 1e6,
        (System.nanoTime() - made) / 1e6,
        cpu / 1e6,
        first.size() + second.size());
    Runtime.getRuntime().halt(0);
  }
}
