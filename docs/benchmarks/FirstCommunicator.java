import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * Makes two communicators, and prints how long each took and the first one's processor time, in ms.
 */
public final class FirstCommunicator {
  private FirstCommunicator() {}

  /**
   * Arguments: cuda or host, ranks, and sockets where they meet so. The property pause is in
   * milliseconds: what the contexts of GPUs take, where they are played.
   */
  public static void main(String[] arguments) throws InterruptedException {
    boolean sockets = arguments.length > 2 && arguments[2].equals("sockets");
    List<Device> devices =
        arguments[0].equals("cuda")
            ? List.copyOf(Devices.cuda().list())
            : Collections.nCopies(Integer.parseInt(arguments[1]), Devices.host());
    for (Device device : devices) {
      if (device instanceof CudaDevice gpu) {
        gpu.memoryInfo(); // makes the context
      }
    }
    Thread.sleep(Integer.getInteger("pause", 0));
    OperatingSystemMXBean system =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = system.getProcessCpuTime();
    long start = System.nanoTime();
    List<Communicator> first = create(devices, sockets);
    long made = System.nanoTime();
    cpu = system.getProcessCpuTime() - cpu;
    List<Communicator> second = create(devices, sockets);
    System.out.printf(
        Locale.ROOT,
        "%.1f %.1f %.1f %d%n",
        (made - start) / 1e6,
        (System.nanoTime() - made) / 1e6,
        cpu / 1e6,
        first.size() + second.size());
    Runtime.getRuntime().halt(0);
  }

  private static List<Communicator> create(List<Device> devices, boolean sockets) {
    if (!sockets) {
      return Communicator.initAll(devices);
    }
    UniqueId id = UniqueId.create();
    int ranks = devices.size();
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      joining.add(
          Communicator.initRankAsync(
              ranks, id, rank, devices.get(rank), CommunicatorConfig.defaults()));
    }
    return joining.stream().map(CompletableFuture::join).toList();
  }
}
