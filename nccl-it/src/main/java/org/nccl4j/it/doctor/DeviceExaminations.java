package org.nccl4j.it.doctor;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongConsumer;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.init.costs.CostSource;
import org.nccl4j.api.init.costs.NvlsUse;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.driver.GpuDirect;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.it.doctor.bind.CudaProbe;
import org.nccl4j.transport.net.GpuDirectReport;

/** The host device, CUDA and its kernels. */
final class DeviceExaminations {
  private static final Path IMEX_CHANNELS = Path.of("/dev/nvidia-caps-imex-channels");
  private static final String GPU_DIRECT = "gpudirect";
  private static final String NVLS = "nvls";
  static final String HOST = "host device";
  static final String COPIES = "copies";
  private static final String COSTS = "costs";

  /** Subjects of findings that concern GPUs alone. */
  static final Set<String> OF_GPUS = Set.of("cuda", NVLS, COSTS);

  /** Enough for a busy machine, and less than an examination may take. */
  private static final Duration PATIENCE = Duration.ofSeconds(Examination.PATIENCE_SECONDS - 2);

  private DeviceExaminations() {}

  static List<Examination> all() {
    if (!SystemExaminations.onLinux()) {
      return List.of(
          new Examination(HOST, () -> List.of(host())),
          new Examination("cuda", () -> List.of(cuda())));
    }
    return List.of(
        new Examination(HOST, () -> List.of(host())),
        new Examination(COPIES, () -> List.of(Finding.ok(COPIES, CostSource.ofCopies()))),
        new Examination("cuda", () -> List.of(cuda())),
        new Examination(GPU_DIRECT, DeviceExaminations::gpuDirect),
        new Examination("nvml", () -> List.of(nvml())),
        new Examination(NVLS, DeviceExaminations::nvls),
        new Examination(COSTS, DeviceExaminations::costs),
        new Examination("fatbins", () -> List.of(fatbins())));
  }

  /** Two ranks in this process add two numbers. */
  private static Finding host() {
    try {
      Device device = Devices.host();
      CommunicatorConfig config =
          CommunicatorConfig.defaults()
              .withName("doctor")
              .withInitTimeout(PATIENCE)
              .withOperationTimeout(PATIENCE);
      List<Communicator> ranks = Communicator.initAll(List.of(device, device), config);
      try (Communicator one = ranks.get(0);
          Communicator other = ranks.get(1);
          DeviceStream oneStream = device.createStream();
          DeviceStream otherStream = device.createStream();
          DeviceMemory oneNumber = device.allocate(Integer.BYTES);
          DeviceMemory otherNumber = device.allocate(Integer.BYTES)) {
        oneNumber.write(0, number(20));
        otherNumber.write(0, number(22));
        Group.run(
            () -> {
              one.allReduce(oneNumber, oneNumber, 1, DataType.INT32, RedOp.SUM, oneStream);
              other.allReduce(otherNumber, otherNumber, 1, DataType.INT32, RedOp.SUM, otherStream);
            });
        oneStream.synchronize();
        otherStream.synchronize();
        int sum = read(oneNumber);
        return sum == 42
            ? Finding.ok(HOST, "an all-reduce between two ranks works")
            : Finding.broken(
                HOST, "an all-reduce gives " + sum + ", not 42", "report this as a defect");
      }
    } catch (TimeoutException e) {
      return Examination.late(HOST, e.problem());
    } catch (NcclException e) {
      return Finding.broken(
          HOST, "an all-reduce between two ranks fails: " + e.problem(), e.remedy());
    } catch (RuntimeException | LinkageError e) {
      return Finding.broken(
          HOST, "an all-reduce between two ranks fails: " + e, "report this as a defect");
    }
  }

  private static Finding cuda() {
    CudaProbe driver;
    try {
      driver = NativeLibrary.load(CudaProbe.class, NativeNames.CUDA);
    } catch (NcclException e) {
      List<String> files = NativeNames.CUDA.files();
      return files.isEmpty()
          ? Finding.missing("cuda", e.problem() + ": only the host device works", e.remedy())
          : Finding.missing(
              "cuda",
              "there is no " + files.get(0) + ": only the host device works",
              "install NVIDIA's driver; in a container run with --gpus all"
                  + " (nvidia-container-toolkit)");
    }
    int status = driver.cuInit(0);
    if (status != 0) {
      return Finding.missing(
          "cuda",
          "libcuda.so.1 is there, but cuInit fails with error " + status,
          "see that nvidia-smi works; in a container run with --gpus all");
    }
    int version = written(driver::cuDriverGetVersion);
    int devices = written(driver::cuDeviceGetCount);
    String detail =
        "driver for CUDA %d.%d, %d GPUs".formatted(version / 1000, version % 1000 / 10, devices);
    Optional<String> absence = Devices.cuda().absence();
    if (devices > 0 && absence.isPresent()) {
      return Finding.broken(
          "cuda", absence.get(), "install NVIDIA's driver for CUDA 12 or newer: 525.60 or newer");
    }
    return devices > 0
        ? Finding.ok("cuda", detail)
        : Finding.missing("cuda", detail, "see nvidia-smi, and CUDA_VISIBLE_DEVICES");
  }

  /** Returns the findings on what GPUs offer to network cards; empty where there are none. */
  private static List<Finding> gpuDirect() {
    List<Finding> findings = new ArrayList<>();
    for (CudaDevice device : Devices.cuda().list()) {
      GpuDirect offer = device.gpu().gpuDirect();
      findings.add(
          offer.absence().isEmpty()
              ? Finding.ok(
                  GPU_DIRECT,
                  "NICs can access the memory of %s%s%s"
                      .formatted(
                          device,
                          offer.dmaBufs() ? " by dma-buf" : "",
                          offer.peerMemory() ? " by nvidia_peermem, where that is loaded" : ""))
              : Finding.missing(
                  GPU_DIRECT,
                  offer.absence() + ": networks carry its data through pinned memory",
                  "update NVIDIA's driver, if the GPU is made for servers or workstations"));
      findings.addAll(withNics(device));
    }
    return findings;
  }

  /** Returns the findings on how data move between a GPU and the NICs. */
  private static List<Finding> withNics(CudaDevice device) {
    List<Finding> findings = new ArrayList<>();
    try {
      GpuDirectReport.of(device, Settings.ofProcess(Map.of()))
          .forEach(
              (card, how) ->
                  findings.add(
                      Finding.ok(
                          GPU_DIRECT,
                          "memory of %s and network %s: %s".formatted(device, card, how))));
    } catch (NcclException e) {
      findings.add(Finding.warn(GPU_DIRECT, e.problem(), e.remedy()));
    }
    return findings;
  }

  /** Returns the finding on the counts of NVLinks. */
  private static Finding nvml() {
    if (Devices.cuda().list().isEmpty()) {
      return Finding.ok("nvml", "not asked, since this process has no GPU");
    }
    Nvml nvml = Nvml.probe();
    if (nvml.absence().isPresent()) {
      return Finding.missing(
          "nvml",
          nvml.absence().get() + ": NVLinks are only derived from the atomics between GPUs",
          "install NVIDIA's driver with libnvidia-ml.so.1; in a container set"
              + " NVIDIA_DRIVER_CAPABILITIES=compute,utility");
    }
    int links =
        nvml.gpus().stream()
            .flatMap(gpu -> gpu.nvLinks().values().stream())
            .mapToInt(Integer::intValue)
            .sum();
    String detail = "%d GPUs with %d NVLinks".formatted(nvml.gpus().size(), links);
    boolean severalHosts =
        nvml.gpus().stream().anyMatch(gpu -> nvml.fabric(gpu.busId()).isOfSeveralHosts());
    if (!severalHosts) {
      return Finding.ok("nvml", detail);
    }
    return Files.isDirectory(IMEX_CHANNELS)
        ? Finding.ok("nvml", detail + " of a fabric of several hosts")
        : Finding.missing(
            "nvml",
            detail
                + " of a fabric of several hosts, whose GPUs are reached over a network: there is"
                + " no IMEX channel in "
                + IMEX_CHANNELS,
            "make a channel and give it to the container (nvidia-modprobe,"
                + " NVIDIA_IMEX_CHANNELS=0)");
  }

  /**
   * Returns the finding on NVLink SHARP among all GPUs of this process; empty where there are none.
   */
  private static List<Finding> nvls() {
    List<CudaDevice> gpus = Devices.cuda().list();
    if (gpus.isEmpty()) {
      return List.of();
    }
    try {
      return List.of(
          Finding.ok(NVLS, "NVLink SHARP: " + NvlsUse.of(Settings.ofProcess(Map.of()), gpus)));
    } catch (NcclException e) {
      return List.of(Finding.broken(NVLS, e.problem(), e.remedy()));
    }
  }

  /**
   * Returns the finding on the times by which algorithms are chosen on all GPUs of this process;
   * empty where there are none.
   */
  private static List<Finding> costs() {
    List<CudaDevice> gpus = Devices.cuda().list();
    if (gpus.isEmpty()) {
      return List.of();
    }
    try {
      return List.of(
          Finding.ok(
              COSTS, "times of algorithms: " + CostSource.of(Settings.ofProcess(Map.of()), gpus)));
    } catch (NcclException e) {
      return List.of(Finding.broken(COSTS, e.problem(), e.remedy()));
    }
  }

  private static Finding fatbins() {
    KernelBuild build = KernelBuild.present();
    if (build.absence().isPresent()) {
      return Finding.missing(
          "fatbins",
          "there are " + build + "; GPUs cannot be used",
          build.absence().get().remedy());
    }
    List<CudaDevice> left =
        Devices.cuda().list().stream()
            .filter(gpu -> !build.runsOn(gpu.computeCapability()))
            .toList();
    return left.isEmpty()
        ? Finding.ok("fatbins", build.toString())
        : Finding.missing(
            "fatbins",
            build + ": not for " + left.get(0),
            "build with mvn -Prelease package, for all GPUs from compute capability 7.5 on, or with"
                + " -Dcuda.architectures="
                + left.get(0).computeCapability());
  }

  private static int written(LongConsumer function) {
    try (DeviceMemory memory = Devices.host().allocate(Integer.BYTES)) {
      function.accept(memory.address());
      return read(memory);
    }
  }

  private static ByteBuffer number(int value) {
    return ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.nativeOrder()).putInt(0, value);
  }

  private static int read(DeviceMemory memory) {
    ByteBuffer buffer = number(0);
    memory.read(0, buffer);
    return buffer.getInt(0);
  }
}
