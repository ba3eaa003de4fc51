package org.nccl4j.device.cuda.driver;

import jcuda.driver.CUdevice_attribute;
import org.nccl4j.device.Device;

/**
 * A GPU as the driver has it: its number, its attributes, and its primary context. The rooms below
 * {@code CudaDevice} name it, so that none of them knows what is made of a GPU. Any thread may
 * call.
 */
public final class Gpu {
  private static final String INSTANCE = "/";

  private final Device device;
  private final int index;
  private final int handle;
  private final String name;
  private final String pciBusId;
  private final String id;
  private final int computeCapability;
  private final int multiprocessors;
  private final HostCopies hostCopies = new HostCopies(this);
  private final FabricHandles fabricHandles = new FabricHandles(this);
  private final MemorySharing sharing = new MemorySharing(this);
  private final LaunchGates launchGates = new LaunchGates();
  private volatile GpuDirect gpuDirect; // null while not asked
  private volatile CudaContext context;

  /**
   * A GPU that the driver has.
   *
   * @param index its number in this process
   * @param device the device that users have for it
   */
  public Gpu(int index, Device device) {
    this.index = index;
    this.device = device;
    handle = CudaLibrary.device(index);
    name = CudaLibrary.deviceName(handle, index);
    pciBusId = CudaLibrary.pciBusId(handle, this);
    id = pciBusId + CudaLibrary.instance(handle).map(uuid -> INSTANCE + uuid).orElse("");
    computeCapability =
        10 * attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
            + attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    multiprocessors = attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }

  /** The device that users have for it. */
  public Device device() {
    return device;
  }

  /** The CUdevice. */
  public int handle() {
    return handle;
  }

  /** Returns the GPU's number in this process. */
  public int index() {
    return index;
  }

  public String name() {
    return name;
  }

  /** Returns the GPU's PCI address, such as "0000:1b:00.0", as in /sys/bus/pci/devices. */
  public String pciBusId() {
    return pciBusId;
  }

  /** Returns the GPU's PCI address, with the instance's UUID for a MIG instance. */
  public String id() {
    return id;
  }

  /** True if an {@link #id} is of an instance of a GPU. */
  public static boolean isInstance(String id) {
    return id.contains(INSTANCE);
  }

  /** The compute capability times ten: 90 for an H200. */
  public int computeCapability() {
    return computeCapability;
  }

  public int multiprocessors() {
    return multiprocessors;
  }

  /**
   * Returns how many blocks of a kernel are at work at once on the idle GPU, at least.
   *
   * @param threads of a block
   * @param together blocks for which a multiprocessor has the registers, as in the launch bounds
   */
  public int room(int threads, int together) {
    int most =
        attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / threads;
    return multiprocessors * Math.max(1, Math.min(together, most));
  }

  /** A CU_DEVICE_ATTRIBUTE. */
  public int attribute(int attribute) {
    return CudaLibrary.deviceAttribute(handle, attribute, this);
  }

  /** Free and total bytes of its memory, in this order. */
  public long[] memoryInfo() {
    return context().get(() -> CudaLibrary.memoryInfo(this));
  }

  /** True if its kernels can load from and store to the memory of another GPU. */
  public boolean canAccess(Gpu peer) {
    return peer == this || CudaLibrary.canAccessPeer(handle, peer.handle, this);
  }

  /** True if atomics on another GPU's memory are the hardware's, as over NVLink. */
  public boolean hasAtomicsOn(Gpu peer) {
    return CudaLibrary.hasPeerAtomics(handle, peer.handle, this);
  }

  /** The launches of its communicators that are under way. */
  public LaunchGates launchGates() {
    return launchGates;
  }

  /** Copies between its memory and the host's. */
  public HostCopies hostCopies() {
    return hostCopies;
  }

  /** Returns the GPU's support for fabric handles of shareable memory. */
  public FabricHandles fabricHandles() {
    return fabricHandles;
  }

  /** Returns the GPU's support for sharing memory by file descriptor. */
  public MemorySharing sharing() {
    return sharing;
  }

  /** Returns the GPU's support for GPUDirect, which network cards use. */
  public GpuDirect gpuDirect() {
    if (gpuDirect == null) {
      gpuDirect = GpuDirect.of(this);
    }
    return gpuDirect;
  }

  /** The primary context, made at the first call. */
  public CudaContext context() {
    CudaContext made = context;
    if (made == null) {
      synchronized (this) {
        if (context == null) {
          context = new CudaContext(handle, this);
        }
        made = context;
      }
    }
    return made;
  }

  @Override
  public String toString() {
    return "CUDA device %d (%s)".formatted(index, name);
  }
}
