package org.nccl4j.it.abi;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.api.Devices;
import org.nccl4j.api.settings.DropInSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;

/**
 * A device, with the memory and the streams of the C program that have been wrapped. Any thread.
 */
final class Place {
  private static final int SLOT_BITS = 8;
  private static final long MIX = 0x9e3779b97f4a7c15L;

  private static final System.Logger LOG = DebugLog.of("P2P");
  private static final Map<Device, Place> PLACES = new ConcurrentHashMap<>();

  private final Device device;
  private final WrappedMemory memory;

  /** All streams, which launches compare. */
  private final Map<Long, CudaStream> streams = new ConcurrentHashMap<>();

  /** Some streams, found without a boxed handle; as {@link WrappedMemory} keeps memory. */
  private final CudaStream[] recent = new CudaStream[1 << SLOT_BITS];

  private Place(Device device) {
    this.device = device;
    this.memory = new WrappedMemory(this);
  }

  /**
   * The place of a communicator.
   *
   * @param gpu the number of the calling thread's current GPU; without effect on the host
   */
  static Place current(int gpu) {
    boolean host = Settings.ofProcess(Map.of()).get(DropInSettings.NCCL4J_DEVICE).equals("host");
    return of(host ? Devices.host() : Devices.cuda().device(gpu));
  }

  static Place of(Device device) {
    return PLACES.computeIfAbsent(device, Place::new);
  }

  /**
   * Lets all GPUs that the process sees access memory of this place, where they can. One that the
   * process has not used gets no context for that.
   */
  void open(DeviceMemory memory) {
    if (device instanceof CudaDevice owner) {
      for (CudaDevice peer : Devices.cuda().list()) {
        if (peer != owner) {
          open(peer, owner, memory);
        }
      }
    }
  }

  private static void open(CudaDevice peer, CudaDevice owner, DeviceMemory memory) {
    try {
      owner.letIn(peer, memory);
    } catch (NcclException e) {
      LOG.log(System.Logger.Level.DEBUG, () -> "%s cannot access %s".formatted(peer, memory), e);
    }
  }

  Device device() {
    return device;
  }

  boolean isHost() {
    return device.kind() == Device.Kind.HOST;
  }

  WrappedMemory memory() {
    return memory;
  }

  /**
   * A stream of the program, by its cudaStream_t; not on the host, which has no such streams. The
   * program may have destroyed the one that had the handle before, with work under way.
   */
  @HotPath
  DeviceStream stream(long handle) {
    int slot = (int) (handle * MIX >>> Long.SIZE - SLOT_BITS);
    CudaStream found = recent[slot];
    return found != null && found.handle() == handle && !found.isHandleReused()
        ? found
        : wrap(slot, handle);
  }

  private DeviceStream wrap(int slot, long handle) {
    CudaStream wrapped =
        streams.compute(
            handle,
            (same, known) ->
                known != null && !known.isHandleReused()
                    ? known
                    : ((CudaDevice) device).wrapStream(same));
    recent[slot] = wrapped;
    return wrapped;
  }
}
