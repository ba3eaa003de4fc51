package org.nccl4j.device.host;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.ExposedSteps;
import org.nccl4j.device.connection.Connection.PlacedSteps;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.kernel.HostKernelCommunicator;
import org.nccl4j.device.host.kernel.nvls.HostMulticastProbe;
import org.nccl4j.device.host.kernel.protocol.LineSlots;
import org.nccl4j.device.host.kernel.protocol.Placing;
import org.nccl4j.device.host.kernel.protocol.ProxyExposures;
import org.nccl4j.device.host.memory.CopyReason;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.MappableSegment;
import org.nccl4j.device.host.memory.StreamingCopy;
import org.nccl4j.device.host.stream.Dispatcher;
import org.nccl4j.device.host.stream.HostEvent;
import org.nccl4j.device.host.stream.HostStream;
import org.nccl4j.device.host.symmetric.HostAllocations;
import org.nccl4j.device.host.symmetric.HostFlatRange;
import org.nccl4j.device.host.symmetric.HostMulticast;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.PinnedMemory;
import org.nccl4j.device.shm.HugePages;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.SharedSegment;
import org.nccl4j.device.symmetric.FlatRange;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;
import org.nccl4j.device.symmetric.SymmetricDevice;

/** This machine's processor and memory. One instance. */
public final class HostDevice extends Device implements KernelDevice, SymmetricDevice {
  private static final Logger LOG = DebugLog.of("ALLOC");
  private static final HostDevice INSTANCE = new HostDevice();

  /** From here on other processes can map what {@link #allocate} returns. */
  private static final long SHARED_BYTES = 64 << 10;

  /** Most allocations that other processes can map: each has a file descriptor. */
  private static final int MOST_SHARED = 256;

  private static final CopyReason SMALL =
      new CopyReason(
          "an allocation below %d KiB is not shared (allocate more and slice it, or use memAlloc)"
              .formatted(SHARED_BYTES >> 10));

  private static final CopyReason MANY =
      new CopyReason(
          "%d allocations are shared already (allocate more at once and slice it, or use memAlloc)"
              .formatted(MOST_SHARED));

  private static final CopyReason WRAPPED =
      new CopyReason(
          "wrapped memory that the device has not allocated is not shared (use allocate, and view"
              + " its memory as a ByteBuffer)");

  private static final int LL_SLOT_BYTES = 16 << 10;

  /** A flag and 8 KiB of data; not a power of two, so that slots do not share cache sets. */
  private static final int LL128_SLOT_BYTES = (8 << 10) + ConnectionLayout.WORD_STRIDE;

  private static final int SIMPLE_SLOT_BYTES = 64 << 10;

  private static final String OWN_MEMORY =
      "pass the address and size of memory of this process; memory of a GPU belongs to"
          + " Devices.cuda()";

  private final Dispatcher dispatcher = new Dispatcher();
  private final HostAllocations exportables = new HostAllocations(this);

  /** True once an allocation could not be shared. */
  private final AtomicBoolean unshared = new AtomicBoolean();

  private HostDevice() {}

  /** The one instance. */
  public static HostDevice instance() {
    return INSTANCE;
  }

  @Override
  public Kind kind() {
    return Kind.HOST;
  }

  @Override
  public int index() {
    return 0;
  }

  @Override
  public String name() {
    return "host";
  }

  @Override
  public DeviceMemory allocate(long bytes) {
    if (bytes < 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT, "an allocation of " + bytes + " bytes", "ask for 0 or more");
    }
    if (bytes == 0) {
      return new HostMemory(this, 0, 0, () -> {});
    }
    if (bytes < SHARED_BYTES) {
      return ownMemory(bytes, SMALL);
    }
    if (exportables.count() >= MOST_SHARED) {
      return ownMemory(bytes, MANY);
    }
    if (SharedSegment.obstacle().isEmpty()) {
      try {
        return exportables.allocate(bytes, dispatcher::free, /* forWindows= */ false);
      } catch (SystemErrorException e) {
        // A limit on descriptors, or a container without memfd_create.
        return ownMemory(bytes, e);
      }
    }
    return ownMemory(bytes);
  }

  /** This process's own memory, where memory to share is refused. */
  private DeviceMemory ownMemory(long bytes, SystemErrorException refused) {
    DeviceMemory memory = ownMemory(bytes);
    LOG.log(
        unshared.getAndSet(true) ? Level.DEBUG : Level.INFO,
        "memory is not shared with other processes, and data from it are copied twice: {0}",
        refused.getMessage());
    return memory;
  }

  /** New memory that no other process can map, without a file descriptor; at least 1 byte. */
  public DeviceMemory ownMemory(long bytes) {
    return ownMemory(bytes, /* copied= */ (CopyReason) null);
  }

  private DeviceMemory ownMemory(long bytes, CopyReason copied) {
    MappedRegion region = MappedRegion.anonymous(bytes);
    if (bytes >= HostAllocations.HUGE_BYTES) {
      region.preferHugePages();
      region.preferOwnNode();
    }
    Runnable release = () -> dispatcher.free(region.unmapping());
    return new HostMemory(this, region.address(), bytes, release, copied);
  }

  @Override
  public DeviceMemory memAlloc(long bytes) {
    if (bytes < 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT, "an allocation of " + bytes + " bytes", "ask for 0 or more");
    }
    return bytes == 0
        ? new HostMemory(this, 0, 0, () -> {})
        : exportables.allocate(bytes, dispatcher::free);
  }

  @Override
  public long granularity() {
    return HostAllocations.PAGE;
  }

  @Override
  public long stride(int team) {
    return HostAllocations.stride(team);
  }

  @Override
  public long resourceBytes(int team) {
    return new LineSlots(team).bytes();
  }

  /** Most bytes of data that a rank gives all others in lines of data and flags. */
  public static long lineData() {
    return LineSlots.DATA_BYTES;
  }

  @Override
  public Optional<ShareableMemory> exportable(DeviceMemory memory) {
    return exportables.find(memory.address());
  }

  @Override
  public FlatRange reserve(int team, long stride) {
    return new HostFlatRange(this, team, stride);
  }

  @Override
  public PinnedMemory hostVisible(long bytes) {
    return new HostOwn(ownMemory(bytes));
  }

  /** All memory here is the host's. */
  private record HostOwn(DeviceMemory memory) implements PinnedMemory {
    @Override
    public void put(byte[] bytes) {
      memory.write(0, ByteBuffer.wrap(bytes));
    }

    @Override
    public byte[] get() {
      ByteBuffer bytes = ByteBuffer.allocate((int) memory.size());
      memory.read(0, bytes);
      return bytes.array();
    }

    @Override
    public void close() {
      memory.close();
    }
  }

  @Override
  public List<String> slowerWays() {
    List<String> ways = new ArrayList<>(HugePages.obstacles(HugePages.SETTINGS));
    ways.add(StreamingCopy.open().obstacle());
    ways.removeIf(String::isEmpty);
    return ways;
  }

  @Override
  public DeviceMemory wrap(long address, long bytes) {
    checkRange(address, bytes, OWN_MEMORY);
    if (bytes > 0 && !MappedRegion.isReadable(address)) {
      throw notWrapped(address, bytes, ": this process cannot read the first", OWN_MEMORY);
    }
    if (bytes > 0 && !MappedRegion.isReadable(address + bytes - 1)) {
      throw notWrapped(address, bytes, ": this process cannot read the last", OWN_MEMORY);
    }
    return wrapped(address, bytes, () -> {});
  }

  /** Memory that was allocated elsewhere, or is a part of an allocation of this device. */
  private HostMemory wrapped(long address, long bytes, Runnable release) {
    MappableSegment segment = exportables.segment(address, bytes);
    return segment == null
        ? new HostMemory(this, address, bytes, release, WRAPPED)
        : new HostMemory(this, address, bytes, release, segment);
  }

  @Override
  public DeviceMemory wrap(ByteBuffer direct) {
    checkDirect(direct);
    ByteBuffer kept = direct.slice();
    return wrapped(
        HostMemory.addressOf(kept), kept.capacity(), () -> Reference.reachabilityFence(kept));
  }

  /**
   * A part of host memory as a direct buffer in the processor's byte order. It shares the memory's
   * bytes, and must not be used after the memory is closed; it keeps memory that is not closed.
   *
   * @param bytes at most {@code Integer.MAX_VALUE - 8}
   * @throws InvalidArgumentException if the part is not inside the memory, or too large for a
   *     buffer
   */
  public static ByteBuffer view(DeviceMemory memory, long offset, int bytes) {
    return HostMemory.of(memory.slice(offset, bytes)).view();
  }

  /**
   * The steps of a connection between hosts that kernels of this device may expose to its proxy.
   *
   * @param connection the sending end
   * @param leastBytes of a step that is exposed
   * @param registered whether only memory is exposed that its user has registered ({@link
   *     RegisteredMemory})
   */
  public ExposedSteps exposedSteps(
      Connection connection, ConnectionLayout layout, int leastBytes, boolean registered) {
    return new ProxyExposures(connection, layout, leastBytes, registered);
  }

  /**
   * The steps of a connection between hosts that kernels of this device want in their buffers.
   *
   * @param connection the receiving end
   * @param leastBytes of a step that is received there
   * @param registered whether only in memory that its user has registered ({@link
   *     RegisteredMemory})
   * @param awaited whether the sender may wait until it knows where the data of a step go
   */
  public PlacedSteps placedSteps(
      Connection connection, int leastBytes, boolean registered, boolean awaited) {
    return new Placing(connection, leastBytes, registered, awaited);
  }

  @Override
  public DeviceStream createStream() {
    return new HostStream(this, dispatcher);
  }

  @Override
  public DeviceEvent createEvent() {
    return new HostEvent();
  }

  @Override
  public String id() {
    return "host";
  }

  @Override
  public Optional<Boolean> nvlink(String peer) {
    return Optional.of(false);
  }

  @Override
  public ConnectionLayout connectionLayout(int nRanks) {
    return new ConnectionLayout(LL_SLOT_BYTES, LL128_SLOT_BYTES, SIMPLE_SLOT_BYTES);
  }

  @Override
  public String multicastAbsence() {
    return "the host device has no switch, only the emulation";
  }

  @Override
  public MulticastObject multicast(MulticastObject.Form form, MulticastObject.Group group) {
    if (form == MulticastObject.Form.DRIVER) {
      throw noSwitch();
    }
    return new HostMulticast(this, group);
  }

  @Override
  public MulticastObject multicastOf(ShareableMemory own, MulticastObject.Group group) {
    throw noSwitch();
  }

  @Override
  public void loadCombined(
      MulticastMemory all, DataType type, RedOp op, long offset, DeviceMemory target) {
    HostMulticastProbe.load(all, type, op, offset, target);
  }

  @Override
  public void storeToAll(DeviceMemory source, MulticastMemory all, long offset) {
    HostMulticastProbe.store(source, all, offset);
  }

  private InvalidUsageException noSwitch() {
    return new InvalidUsageException(
        ErrorId.UNSUPPORTED,
        "a multicast object of the driver is requested: " + multicastAbsence(),
        "use the emulation (NCCL4J_NVLS_MODE=emulated)");
  }

  @Override
  public KernelCommunicator createKernelCommunicator(KernelCommunicatorSpec spec) {
    return new HostKernelCommunicator(spec, this);
  }
}
