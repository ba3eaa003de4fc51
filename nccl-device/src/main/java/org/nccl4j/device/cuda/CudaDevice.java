package org.nccl4j.device.cuda;

import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import jcuda.Pointer;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.CUstream;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.HostVisible;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.symmetric.Exportable;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.SymmetricDevice;

/**
 * A GPU. Works in the device's primary context, as the CUDA runtime does, so that memory and
 * streams of other libraries of the process can be wrapped; a caller's current context is left as
 * it was.
 */
public final class CudaDevice extends Device implements KernelDevice, SymmetricDevice {
  /** Most ranks whose windows kernels reach. */
  public static final int TEAM_RANKS = DirectLayout.RANKS;

  private static final int VIRTUAL_MEMORY = 102; // ..._VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
  private static final int FILE_DESCRIPTORS = 103; // ..._TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
  private static final int MULTICAST_SUPPORTED = 132; // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
  private static final int MULTICAST_DRIVER = 12010;
  private static final int MULTICAST_CAPABILITY = 90;
  private static final String INSTANCE = "/";

  private final int index;
  private final int device; // its CUdevice
  private final String name;
  private final String pciBusId;
  private final String id;
  private final int computeCapability;
  private final int multiprocessors;
  private final LaunchOrder launchOrder = new LaunchOrder(this);
  private final HostCopies hostCopies = new HostCopies(this);
  private final FabricHandles fabricHandles = new FabricHandles(this);
  private final AtomicInteger communicators = new AtomicInteger();
  private volatile String sharingAbsence; // null while not asked, "" for none
  private volatile GpuDirect gpuDirect; // null while not asked
  private volatile CudaContext context;
  private volatile KernelModules kernels;

  CudaDevice(int index) {
    this.index = index;
    device = CudaLibrary.device(index);
    name = CudaLibrary.deviceName(device, index);
    pciBusId = CudaLibrary.pciBusId(device, this);
    id = pciBusId + CudaLibrary.instance(device).map(uuid -> INSTANCE + uuid).orElse("");
    computeCapability =
        10 * attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
            + attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    multiprocessors = attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }

  @Override
  public Kind kind() {
    return Kind.CUDA;
  }

  @Override
  public int index() {
    return index;
  }

  @Override
  public String name() {
    return name;
  }

  /** Its place in the machine, such as "0000:1b:00.0", as in /sys/bus/pci/devices. */
  public String pciBusId() {
    return pciBusId;
  }

  /** The compute capability times ten: 90 for an H200. */
  public int computeCapability() {
    return computeCapability;
  }

  /** Streaming multiprocessors. */
  public int multiprocessors() {
    return multiprocessors;
  }

  /** Of the communicators of this process that keep one order. */
  LaunchOrder launchOrder() {
    return launchOrder;
  }

  /** Between its memory and the host's. */
  HostCopies hostCopies() {
    return hostCopies;
  }

  /** How many communicators this process has on it. */
  AtomicInteger communicators() {
    return communicators;
  }

  /** Free and total bytes of its memory, in this order. Makes the context if there is none yet. */
  public long[] memoryInfo() {
    return context().get(() -> CudaLibrary.memoryInfo(this));
  }

  /** Whether kernels of this device can load from and store to the memory of another. */
  public boolean canAccess(CudaDevice peer) {
    return peer == this || CudaLibrary.canAccessPeer(device, peer.device, this);
  }

  /**
   * Whether kernels of this device are likely to reach the memory of a GPU of this machine. The
   * management library knows of GPUs that this process does not see (CUDA_VISIBLE_DEVICES); where
   * it says nothing either, the answer is yes, and opening the memory tells.
   *
   * @param peer its {@link #id}
   */
  public boolean mayAccess(String peer) {
    Optional<CudaDevice> seen = CudaDevices.probe().find(peer);
    if (seen.isPresent()) {
      return canAccess(seen.get());
    }
    if (isInstance(id) || isInstance(peer)) {
      return false; // of instances each has its own memory alone
    }
    Nvml nvml = Nvml.probe();
    return nvml.gpu(pciBusId)
        .flatMap(own -> nvml.gpu(peer).map(other -> nvml.allowsPeers(own.index(), other.index())))
        .orElse(true);
  }

  private static boolean isInstance(String id) {
    return id.contains(INSTANCE);
  }

  /**
   * Why physical memory of this device cannot be shared by descriptor, so that there are neither
   * windows nor {@link CudaShareableMemory}; empty while it can, as far as is known.
   */
  public Optional<String> sharingAbsence() {
    String known = sharingAbsence;
    if (known == null) {
      known =
          attribute(VIRTUAL_MEMORY) == 0
              ? this + " has no virtual memory management"
              : attribute(FILE_DESCRIPTORS) == 0
                  ? this + " cannot export memory as file descriptors"
                  : "";
      sharingAbsence = known;
    }
    return known.isEmpty() ? Optional.empty() : Optional.of(known);
  }

  /** Whether its shareable memory has fabric handles. */
  FabricHandles fabricHandles() {
    return fabricHandles;
  }

  /** What it offers to network cards. */
  public GpuDirect gpuDirect() {
    if (gpuDirect == null) {
      gpuDirect = GpuDirect.of(this);
    }
    return gpuDirect;
  }

  /**
   * Memory to share with other ranks: {@link CudaShareableMemory}, or {@link CudaIpcMemory} where
   * that is not to be had, which {@link #sharingAbsence} tells from then on.
   *
   * @param abroad whether ranks of other processes need it too
   */
  public SharedDeviceMemory allocateShared(long bytes, boolean abroad) {
    if (sharingAbsence().isEmpty()) {
      try {
        return exported(CudaShareableMemory.create(this, bytes), abroad);
      } catch (CudaException e) {
        if (!CudaResult.isRefusal(e)) {
          throw e;
        }
        sharingAbsence = e.problem();
      }
    }
    return CudaIpcMemory.create(this, bytes);
  }

  /** Some drivers, those of virtual machines say, refuse only the export. */
  private static CudaShareableMemory exported(CudaShareableMemory memory, boolean abroad) {
    try {
      if (abroad) {
        new OwnedFd(memory.exportFileDescriptor()).close();
      }
      return memory;
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  @Override
  public DeviceMemory allocate(long bytes) {
    return CudaMemory.allocate(this, bytes);
  }

  @Override
  public DeviceMemory memAlloc(long bytes) {
    return CudaMemory.exportable(this, bytes);
  }

  @Override
  public long granularity() {
    return CudaShareableMemory.granularity(this);
  }

  @Override
  public long stride(int team) {
    return CudaFlatRange.stride(memoryInfo()[1]);
  }

  /**
   * Most bytes of data that a rank can send each other in lines of data and flags, in the direct
   * kernels.
   */
  public static long lineData(int nRanks) {
    return DirectLayout.lineData(nRanks);
  }

  @Override
  public long resourceBytes(int team) {
    return DirectLayout.of(team).bytes();
  }

  @Override
  public Optional<Exportable> exportable(DeviceMemory memory) {
    return CudaAllocation.of(this, memory.address());
  }

  @Override
  public FlatRange reserve(int team, long stride) {
    return CudaFlatRange.reserve(this, team, stride);
  }

  @Override
  public HostVisible hostVisible(long bytes) {
    return new CudaHostVisible(this, bytes);
  }

  @Override
  public DeviceMemory wrap(long address, long bytes) {
    if (bytes < 0 || (address == 0 && bytes > 0)) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "%d bytes at address 0x%x cannot be wrapped".formatted(bytes, address),
          "pass the address and size of an allocation that " + this + " can reach");
    }
    return CudaMemory.wrap(this, address, bytes);
  }

  /** {@link #wrap(long, long)} for a JCuda pointer to device memory. */
  public DeviceMemory wrap(Pointer pointer, long bytes) {
    return wrap(Handles.address(Given.notNull(pointer, "pointer")), bytes);
  }

  /** Looks at both ends. Pinned and managed memory of the host is as good as the device's. */
  @Override
  public Optional<String> objection(DeviceMemory memory) {
    if (Given.notNull(memory, "memory").size() == 0) {
      return Optional.empty();
    }
    long last = memory.address() + memory.size() - 1;
    return context().get(() -> objection(memory.address()).or(() -> objection(last)));
  }

  private Optional<String> objection(long address) {
    int type = DriverLibrary.memoryType(address, this);
    if (type == DriverLibrary.UNKNOWN) {
      return Optional.of(
          "the address 0x%x is none that the driver knows: it is of the host's memory, or was freed"
              .formatted(address));
    }
    int of = type == DriverLibrary.MEMORY_OF_DEVICE ? DriverLibrary.deviceOf(address, this) : index;
    return of == index
        ? Optional.empty()
        : Optional.of(
            "the address 0x%x is of device %d's memory, not of %s".formatted(address, of, this));
  }

  @Override
  public DeviceStream createStream() {
    return new CudaStream(
        this, context().get(() -> CudaLibrary.createStream(this)), /* owned= */ true);
  }

  /**
   * A stream of the user's, which closing the result leaves alone. It must live until the last
   * operation that was launched into it has ended; only calls that are given the stream use it, so
   * that it may be destroyed then, whether the result is closed or not.
   */
  public CudaStream wrap(CUstream stream) {
    return new CudaStream(
        this, Handles.address(Given.notNull(stream, "stream")), /* owned= */ false);
  }

  @Override
  public DeviceEvent createEvent() {
    return new CudaEvent(this, context().get(() -> CudaLibrary.createEvent(true, this)));
  }

  /** Its place in the machine; of an instance of a GPU (MIG) with the instance's UUID. */
  @Override
  public String id() {
    return id;
  }

  /**
   * Native atomics between two devices are what NVLink has and PCIe has not. The management library
   * knows of GPUs that this process does not see.
   */
  @Override
  public Optional<Boolean> nvlink(String peer) {
    if (peer.equals(id)) {
      return Optional.of(true);
    }
    return CudaDevices.probe()
        .find(peer)
        .map(other -> CudaLibrary.hasPeerAtomics(device, other.device, this))
        .or(() -> Nvml.probe().hasNvlink(id, peer));
  }

  @Override
  public ConnectionLayout connectionLayout(int nRanks) {
    return ConnectionSizes.layout(nRanks);
  }

  @Override
  public String multicastAbsence() {
    int version = CudaLibrary.driverVersion();
    if (version < MULTICAST_DRIVER) {
      return "its driver is for CUDA %d.%d, and multicast objects came with 12.1"
          .formatted(version / 1000, version % 1000 / 10);
    }
    if (computeCapability < MULTICAST_CAPABILITY) {
      return "%s has compute capability %d.%d, and NVLink SHARP came with 9.0"
          .formatted(this, computeCapability / 10, computeCapability % 10);
    }
    return attribute(MULTICAST_SUPPORTED) == 0
        ? this + " has no switch with NVLink SHARP, or its fabric manager does not run"
        : null;
  }

  @Override
  public MulticastObject multicast(MulticastObject.Form form, MulticastObject.Group group) {
    return switch (form) {
      case DRIVER -> new DriverMulticast(this, group, new MulticastBacking.Allocated(this));
      case EMULATED -> new EmulatedMulticast(this, group);
    };
  }

  @Override
  public MulticastObject multicastOf(Exportable own, MulticastObject.Group group) {
    return new DriverMulticast(this, group, new MulticastBacking.Users(this, own));
  }

  @Override
  public Optional<String> remoteAbsence() {
    return RemotePuts.absence(this);
  }

  @Override
  public KernelCommunicator createKernelCommunicator(KernelCommunicatorSpec spec) {
    return CudaKernelCommunicator.create(this, spec);
  }

  /**
   * Makes this device's primary context the calling thread's, as cudaSetDevice does: for other
   * libraries that are called on the thread.
   */
  public void makeCurrent() {
    context().enter();
  }

  @Override
  public void useOnThisThread() {
    makeCurrent();
  }

  /** The primary context, made at the first call. */
  CudaContext context() {
    CudaContext made = context;
    if (made == null) {
      synchronized (this) {
        if (context == null) {
          context = new CudaContext(device, this);
        }
        made = context;
      }
    }
    return made;
  }

  /** The kernels loaded into this device's context. */
  KernelModules kernels() {
    KernelModules made = kernels;
    if (made == null) {
      synchronized (this) {
        if (kernels == null) {
          kernels = new KernelModules(this);
        }
        made = kernels;
      }
    }
    return made;
  }

  /** A CU_DEVICE_ATTRIBUTE. */
  int attribute(int attribute) {
    return CudaLibrary.deviceAttribute(device, attribute, this);
  }

  @Override
  public String toString() {
    return "CUDA device %d (%s)".formatted(index, name);
  }
}
