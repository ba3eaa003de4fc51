package org.nccl4j.device.cuda;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import jcuda.Pointer;
import jcuda.driver.CUresult;
import jcuda.driver.CUstream;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.ExposedSteps;
import org.nccl4j.device.connection.Connection.PlacedSteps;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.memory.CudaAllocation;
import org.nccl4j.device.cuda.memory.CudaFlatRange;
import org.nccl4j.device.cuda.memory.CudaMemory;
import org.nccl4j.device.cuda.memory.CudaPinnedMemory;
import org.nccl4j.device.cuda.memory.CudaShareableMemory;
import org.nccl4j.device.cuda.memory.DriverMulticast;
import org.nccl4j.device.cuda.memory.EmulatedMulticast;
import org.nccl4j.device.cuda.memory.MulticastBacking;
import org.nccl4j.device.cuda.memory.MulticastProbe;
import org.nccl4j.device.cuda.module.KernelModules;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.device.cuda.plan.ConnectionSizes;
import org.nccl4j.device.cuda.plan.LaunchOrder;
import org.nccl4j.device.cuda.plan.P2pPlans;
import org.nccl4j.device.cuda.rma.ExposedPuts;
import org.nccl4j.device.cuda.rma.PlacedPuts;
import org.nccl4j.device.cuda.rma.RmaSender;
import org.nccl4j.device.cuda.stream.CaptureRegistry;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.window.DirectLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.PinnedMemory;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;
import org.nccl4j.device.symmetric.SymmetricDevice;
import org.nccl4j.operation.Algorithm;

/**
 * A GPU. Works in the device's primary context, as the CUDA runtime does, so that memory and
 * streams of other libraries of the process can be wrapped; a caller's current context is left as
 * it was.
 */
@SuppressWarnings("exports") // the engine's contracts, to this library alone
public final class CudaDevice extends Device implements KernelDevice, SymmetricDevice {
  /** Most ranks whose windows kernels reach. */
  public static final int TEAM_RANKS = DirectLayout.RANKS;

  private static final int MULTICAST_SUPPORTED = 132; // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
  private static final int MULTICAST_DRIVER = 12010;
  private static final int MULTICAST_CAPABILITY = 90;

  /** Of GPUs whose multicast combines floats of 8 bits: 10.0 and 10.3. */
  private static final int BYTES_CAPABILITY = 10;

  private static final int PAGEABLE_MEMORY_ACCESS = 88; // CU_DEVICE_ATTRIBUTE_...
  private static final long LEAST_HANDLE = 4096; // no address is lower

  private static final String KNOWN_MEMORY =
      "pass the address and size of an allocation that %s can reach and that is not freed; memory"
          + " of the host belongs to Devices.host()";
  private static final String PIN =
      "allocate it with cuMemHostAlloc, pin it with cuMemHostRegister, or use Devices.host()";

  private final Gpu gpu;
  private final CaptureRegistry captures = new CaptureRegistry();
  private final LaunchOrder launchOrder;
  private final KernelModules kernels;
  private final MulticastProbe multicastProbe;
  private final AtomicInteger communicators = new AtomicInteger();

  CudaDevice(int index) {
    gpu = new Gpu(index, this);
    launchOrder = new LaunchOrder(gpu);
    kernels = new KernelModules(gpu);
    multicastProbe = new MulticastProbe(gpu);
  }

  /** The GPU as this library's transports take it. */
  public Gpu gpu() {
    return gpu;
  }

  @Override
  public Kind kind() {
    return Kind.CUDA;
  }

  @Override
  public int index() {
    return gpu.index();
  }

  @Override
  public String name() {
    return gpu.name();
  }

  /** Returns the GPU's PCI address, such as "0000:1b:00.0", as in /sys/bus/pci/devices. */
  public String pciBusId() {
    return gpu.pciBusId();
  }

  /** The compute capability times ten: 90 for an H200. */
  public int computeCapability() {
    return gpu.computeCapability();
  }

  /** Streaming multiprocessors. */
  public int multiprocessors() {
    return gpu.multiprocessors();
  }

  /** Returns the launch order of this process's communicators with implicit order. */
  LaunchOrder launchOrder() {
    return launchOrder;
  }

  /** The captures of its streams. */
  CaptureRegistry captures() {
    return captures;
  }

  /** Returns the number of communicators of this process on the device. */
  AtomicInteger communicators() {
    return communicators;
  }

  /** True if it is an instance of a GPU (MIG). Instances have no links to other GPUs. */
  public boolean isInstance() {
    return Gpu.isInstance(id());
  }

  /** Free and total bytes of its memory, in this order. Makes the context if there is none yet. */
  public long[] memoryInfo() {
    return gpu.memoryInfo();
  }

  /** True if kernels of this device can load from and store to the memory of another. */
  public boolean canAccess(CudaDevice peer) {
    return gpu.canAccess(peer.gpu);
  }

  /**
   * True if kernels of this device are likely to reach the memory of a GPU of this machine. The
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
    if (isInstance() || Gpu.isInstance(peer)) {
      return false; // of instances each has its own memory alone
    }
    Nvml nvml = Nvml.probe();
    return nvml.gpu(pciBusId())
        .flatMap(own -> nvml.gpu(peer).map(other -> nvml.allowsPeers(own.index(), other.index())))
        .orElse(true);
  }

  /**
   * Why physical memory of this device cannot be shared by descriptor, so that there are neither
   * windows nor {@link CudaShareableMemory}; empty while it can, as far as is known.
   */
  public Optional<String> sharingAbsence() {
    return gpu.sharing().absence();
  }

  @Override
  public DeviceMemory allocate(long bytes) {
    return CudaMemory.allocate(gpu, bytes);
  }

  @Override
  public DeviceMemory memAlloc(long bytes) {
    return CudaMemory.exportable(gpu, bytes);
  }

  /**
   * Lets another GPU load from and store to memory of {@link #memAlloc}; without effect where it
   * has no way to this GPU, or the memory is not mapped by the driver's virtual memory management.
   *
   * @param peer needs no context, and gets none
   * @throws org.nccl4j.device.CudaException if the driver refuses
   */
  public void letIn(CudaDevice peer, DeviceMemory memory) {
    if (!peer.canAccess(this)) {
      return;
    }
    Optional<ShareableMemory> found = exportable(memory);
    if (found.isPresent()) {
      ShareableMemory physical = found.get();
      try {
        DriverLibrary.setAccess(
            physical.address(), physical.size(), new int[] {peer.gpu.index()}, peer);
      } finally {
        physical.release();
      }
    }
  }

  @Override
  public long granularity() {
    return CudaShareableMemory.granularity(gpu);
  }

  @Override
  public long stride(int team) {
    return CudaFlatRange.stride(memoryInfo()[1]);
  }

  /** The version of CUDA that the driver speaks, such as 12080. */
  public static String driverVersion() {
    return Integer.toString(CudaLibrary.driverVersion());
  }

  /**
   * Most bytes of data that a rank can send each other by a direct algorithm that goes in lines of
   * data and flags.
   */
  public static long lineData(int nRanks, Algorithm algorithm) {
    return DirectLayout.lineData(nRanks, algorithm);
  }

  /** Channels of a message in LL, at most so many. Any thread, without a driver. */
  public static int lineChannels(long bytes, int most) {
    return P2pPlans.lineChannels(bytes, most);
  }

  @Override
  public long resourceBytes(int team) {
    return DirectLayout.of(team).bytes();
  }

  @Override
  public Optional<ShareableMemory> exportable(DeviceMemory memory) {
    return CudaAllocation.of(gpu, memory.address());
  }

  @Override
  public FlatRange reserve(int team, long stride) {
    return CudaFlatRange.reserve(gpu, team, stride);
  }

  @Override
  public PinnedMemory hostVisible(long bytes) {
    return new CudaPinnedMemory(gpu, bytes);
  }

  @Override
  public KernelDevice.StreamGate gate() {
    return new CudaStreamGate(
        gpu, hostVisible(CudaStreamGate.BYTES), stream -> ((CudaStream) stream).open().handle());
  }

  /**
   * {@inheritDoc} Takes memory of this GPU and of its peers, pinned and managed memory of the host,
   * and any memory of the host where the GPU reads that (pageable memory access).
   */
  @Override
  public DeviceMemory wrap(long address, long bytes) {
    checkRange(address, bytes, KNOWN_MEMORY.formatted(this));
    if (bytes > 0 && !isKnown(address, address + bytes - 1)) {
      throw notWrapped(
          address, bytes, ": the CUDA driver does not know them", KNOWN_MEMORY.formatted(this));
    }
    return CudaMemory.wrap(gpu, address, bytes);
  }

  @Override
  public DeviceMemory wrap(ByteBuffer direct) {
    checkDirect(direct);
    ByteBuffer kept = direct.slice();
    int bytes = kept.capacity();
    if (bytes == 0) {
      return CudaMemory.wrap(gpu, 0, 0);
    }
    long host = Offheap.address(kept);
    if (!isKnown(host, host + bytes - 1)) {
      throw notWrapped(host, bytes, ": the buffer is not pinned for " + this, PIN);
    }
    long address = gpu.context().get(() -> DriverLibrary.deviceAddress(host, gpu));
    return CudaMemory.wrap(gpu, address, bytes, () -> Reference.reachabilityFence(kept));
  }

  private boolean isKnown(long first, long last) {
    return gpu.context().get(() -> isKnown(first) && isKnown(last))
        || gpu.attribute(PAGEABLE_MEMORY_ACCESS) != 0;
  }

  private boolean isKnown(long address) {
    return DriverLibrary.memoryType(address, gpu) != DriverLibrary.UNKNOWN;
  }

  /** {@link #wrap(long, long)} for a JCuda pointer to device memory. */
  public DeviceMemory wrap(Pointer pointer, long bytes) {
    return wrap(Handles.pointer(Arguments.notNull(pointer, "pointer")), bytes);
  }

  /** Looks at both ends. Pinned and managed memory of the host is as good as the device's. */
  @Override
  public Optional<String> objection(DeviceMemory memory) {
    if (Arguments.notNull(memory, "memory").size() == 0) {
      return Optional.empty();
    }
    long last = memory.address() + memory.size() - 1;
    return gpu.context().get(() -> objection(memory.address()).or(() -> objection(last)));
  }

  private Optional<String> objection(long address) {
    int type = DriverLibrary.memoryType(address, gpu);
    if (type == DriverLibrary.UNKNOWN) {
      return Optional.of(
          "the address 0x%x is unknown to the CUDA driver: it is host memory, or was freed"
              .formatted(address));
    }
    int of =
        type == DriverLibrary.MEMORY_OF_DEVICE ? DriverLibrary.deviceOf(address, gpu) : index();
    return of == index()
        ? Optional.empty()
        : Optional.of(
            "the address 0x%x is of device %d's memory, not of %s".formatted(address, of, this));
  }

  @Override
  public DeviceStream createStream() {
    return new CudaStream(this, GpuStream.ordinary(gpu));
  }

  /**
   * A stream whose kernels get multiprocessors that become free before those of ordinary streams
   * do: for communication beside a program's own kernels, which otherwise waits until the last of
   * their blocks has begun.
   */
  public CudaStream createPriorityStream() {
    return new CudaStream(this, GpuStream.waiting(gpu));
  }

  /** {@link #wrapStream} for a JCuda stream. */
  public CudaStream wrap(CUstream stream) {
    return wrapStream(Handles.stream(Arguments.notNull(stream, "stream")));
  }

  /**
   * A stream of the user's, which closing the result leaves alone. It must live until the last
   * operation that was launched into it has ended; only calls that are given the stream use it, so
   * that it may be destroyed then, whether the result is closed or not. A stream that gets its
   * handle is another one, to be wrapped anew: its operations follow those of the stream before.
   *
   * @param handle the CUstream (a cudaStream_t is the same); 0 and 1 for the legacy default stream,
   *     2 for the calling thread's default stream. A handle of no stream ends the process: the
   *     driver reads what it points to.
   * @throws InvalidArgumentException if it cannot be the address of a stream, is a stream of
   *     another device, or is one of a context that the program has created; streams of green
   *     contexts are as good as those of the primary context
   */
  public CudaStream wrapStream(long handle) {
    if (!GpuStream.isImplicit(handle)) {
      checkHandle(handle, "stream", ErrorId.STREAM);
      long context = CudaLibrary.contextOf(handle, gpu);
      if (context != gpu.context().handle()) {
        checkContext(handle, context);
      }
    }
    return new CudaStream(this, new GpuStream(gpu, handle, /* owned= */ false));
  }

  private void checkContext(long stream, long context) {
    if (CudaLibrary.deviceOfContext(context, gpu) != gpu.handle()) {
      throw new InvalidArgumentException(
          ErrorId.STREAM,
          "the stream 0x%x is of another device than %s".formatted(stream, this),
          "wrap it with its own device");
    }
    if (!gpu.context().get(() -> takesEvent(stream))) {
      throw new InvalidArgumentException(
          ErrorId.STREAM,
          ("the stream 0x%x is of a context that the program has created on %s, in which the kernels"
                  + " of the device's primary context cannot be launched")
              .formatted(stream, this),
          "create the stream in the primary context: call CudaDevice.makeCurrent or"
              + " cuDevicePrimaryCtxRetain instead of cuCtxCreate");
    }
  }

  /**
   * True if events of the primary context can be recorded in a stream of another context, as in
   * those of green contexts. A stream that is being captured is not tried: its graph would have the
   * event.
   */
  private boolean takesEvent(long stream) {
    if (CudaLibrary.mayBeCapturing(stream, gpu)) {
      return true;
    }
    long event = CudaLibrary.createEvent(false, gpu);
    try {
      CudaLibrary.recordEvent(event, stream, gpu);
      return true;
    } catch (CudaException e) {
      if (e.result() != CUresult.CUDA_ERROR_INVALID_HANDLE) {
        throw e;
      }
      return false;
    } finally {
      CudaLibrary.destroyEvent(event, gpu);
    }
  }

  /**
   * An event of the user's, for streams to await or record, which closing the result leaves alone.
   * It must live until the last call with the result has returned.
   *
   * @param handle the CUevent (a cudaEvent_t is the same), of this device. A handle of no event
   *     ends the process: the driver reads what it points to.
   * @throws InvalidArgumentException if it cannot be the address of an event
   */
  public DeviceEvent wrapEvent(long handle) {
    checkHandle(handle, "event", ErrorId.EVENT);
    return new CudaEvent(gpu, handle, /* owned= */ false);
  }

  private static void checkHandle(long handle, String what, ErrorId id) {
    if (handle < LEAST_HANDLE || handle % Long.BYTES != 0) {
      throw new InvalidArgumentException(
          id,
          "0x%x is the handle of no %s".formatted(handle, what),
          "pass the CU%s itself as a number, not its index or a pointer to it".formatted(what));
    }
  }

  @Override
  public DeviceEvent createEvent() {
    long event = gpu.context().get(() -> CudaLibrary.createEvent(true, gpu));
    return new CudaEvent(gpu, event, /* owned= */ true);
  }

  /** Returns the GPU's PCI address, with the instance's UUID for a MIG instance. */
  @Override
  public String id() {
    return gpu.id();
  }

  /**
   * Native atomics between two devices are what NVLink has and PCIe has not. The management library
   * knows of GPUs that this process does not see.
   */
  @Override
  public Optional<Boolean> nvlink(String peer) {
    if (peer.equals(id())) {
      return Optional.of(true);
    }
    if (isInstance() || Gpu.isInstance(peer)) {
      return Optional.of(false);
    }
    return CudaDevices.probe()
        .find(peer)
        .map(other -> gpu.hasAtomicsOn(other.gpu))
        .or(() -> Nvml.probe().hasNvlink(id(), peer));
  }

  @Override
  public BlockRoom blockRoom() {
    return new BlockRoom(multiprocessors(), P2pPlans.room(gpu));
  }

  @Override
  public int mostRanks() {
    return CudaKernelCommunicator.MOST_RANKS;
  }

  @Override
  public ConnectionLayout connectionLayout(int nRanks) {
    return layoutAmong(nRanks);
  }

  /** The layout of every connection among so many ranks on GPUs; any thread, without a driver. */
  public static ConnectionLayout layoutAmong(int nRanks) {
    return ConnectionSizes.layout(nRanks);
  }

  /**
   * Returns the most bytes of a rank's part that a message of PAT carries on a channel; 0 if slots
   * have no room for PAT. Any thread, without a driver.
   *
   * @param nRanks of the communicator
   * @param sharing ranks for which slots are made
   */
  public static int patPiece(int nRanks, int sharing) {
    return ConnectionSizes.patPiece(layoutAmong(sharing), nRanks);
  }

  /** By instructions that GPUs of compute capability 10 have, and no newer ones by themselves. */
  @Override
  public boolean switchCombinesBytes() {
    return computeCapability() / 10 == BYTES_CAPABILITY && kernels().hasNvls(DataType.FLOAT8_E4M3);
  }

  @Override
  public String multicastAbsence() {
    int version = CudaLibrary.driverVersion();
    if (version < MULTICAST_DRIVER) {
      return "its driver is for CUDA %d.%d, and multicast objects need 12.1"
          .formatted(version / 1000, version % 1000 / 10);
    }
    if (isInstance()) {
      return this + " is an instance of a GPU (MIG), without NVLinks";
    }
    if (computeCapability() < MULTICAST_CAPABILITY) {
      return "%s has compute capability %d.%d, and NVLink SHARP needs 9.0"
          .formatted(this, computeCapability() / 10, computeCapability() % 10);
    }
    return gpu.attribute(MULTICAST_SUPPORTED) == 0
        ? this + " has no switch with NVLink SHARP, or its fabric manager does not run"
        : null;
  }

  @Override
  public void loadCombined(
      MulticastMemory all, DataType type, RedOp op, long offset, DeviceMemory target) {
    multicastProbe.load(all, type, op, offset, target);
  }

  @Override
  public void storeToAll(DeviceMemory source, MulticastMemory all, long offset) {
    multicastProbe.store(source, all, offset);
  }

  @Override
  public double moveThroughAll(MulticastMemory all, MulticastRanges ranges, int rounds) {
    return multicastProbe.move(all, ranges, rounds);
  }

  @Override
  public MulticastObject multicast(MulticastObject.Form form, MulticastObject.Group group) {
    return switch (form) {
      case DRIVER -> new DriverMulticast(gpu, group, new MulticastBacking.Allocated(gpu));
      case EMULATED -> new EmulatedMulticast(gpu, group);
    };
  }

  @Override
  public MulticastObject multicastOf(ShareableMemory own, MulticastObject.Group group) {
    return new DriverMulticast(gpu, group, new MulticastBacking.Users(gpu, own));
  }

  /**
   * The steps of a connection of puts that the proxy sends from where they lie in this GPU.
   *
   * @param connection the sending end, whose slots are in pinned memory
   * @param leastBytes of a put that is sent so
   */
  public ExposedSteps exposedPuts(Connection connection, ConnectionLayout layout, int leastBytes) {
    return new ExposedPuts(gpu, connection, layout, leastBytes);
  }

  /** The steps of a connection of puts that the proxy receives in this GPU's windows. */
  public PlacedSteps placedPuts() {
    return new PlacedPuts();
  }

  @Override
  public Optional<String> remoteAbsence() {
    return RmaSender.absence(gpu);
  }

  @Override
  public void prepareKernels(Set<DataType> types) {
    kernels.beginPreload(types);
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
    gpu.context().enter();
  }

  @Override
  public void useOnThisThread() {
    makeCurrent();
  }

  /** The kernels loaded into this device's context. */
  KernelModules kernels() {
    return kernels;
  }

  @Override
  public String toString() {
    return gpu.toString();
  }
}
