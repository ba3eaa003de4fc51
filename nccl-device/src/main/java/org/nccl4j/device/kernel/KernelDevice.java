package org.nccl4j.device.kernel;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/** The side of a {@link Device} that the engine uses; every device of this module implements it. */
public interface KernelDevice {
  /**
   * Room for blocks of kernels on a device that does nothing else. A block that has no room begins
   * when another ends, so kernels whose blocks wait for other ranks must not need more room than
   * the rank with the least has.
   *
   * @param blocks of the kernel of a collective
   * @param messageBlocks of the kernel of sends and receives
   */
  record BlockRoom(int blocks, int messageBlocks) {
    /** Room without limit: a device without blocks. */
    public static final BlockRoom UNLIMITED = new BlockRoom(Integer.MAX_VALUE, Integer.MAX_VALUE);

    /** The least of both. */
    public BlockRoom least(BlockRoom other) {
      return new BlockRoom(
          Math.min(blocks, other.blocks), Math.min(messageBlocks, other.messageBlocks));
    }

    /** One rank's room where several ranks share the device. */
    public BlockRoom sharedBy(int ranks) {
      return ranks == 1 ? this : new BlockRoom(blocks / ranks, messageBlocks / ranks);
    }

    /**
     * Most blocks of a kernel whose blocks wait for other ranks. Half of the room where not all
     * channels fit: kernels of two communicators can then be at work at once.
     */
    public int mostBlocks() {
      return isSmall() ? Math.max(1, blocks / 2) : blocks;
    }

    /** Most blocks of a kernel of sends and receives, at least one of each. */
    public int mostMessageBlocks() {
      if (isSmall()) {
        return Math.max(2, blocks / 2);
      }
      return messageBlocks < 2 * ConnectionLayout.CHANNELS ? messageBlocks : Integer.MAX_VALUE;
    }

    private boolean isSmall() {
      return blocks < ConnectionLayout.CHANNELS;
    }
  }

  /**
   * Returns the device's identity in the machine. On CUDA: the PCI address, the same in all
   * processes. Else: "host".
   */
  String id();

  /**
   * True if NVLink connects this device and another of the machine. NVLink keeps a store of 128
   * bytes whole. Empty if this process cannot tell.
   *
   * @param peer the other's {@link #id}
   */
  Optional<Boolean> nvlink(String peer);

  /**
   * Begins to load the kernels that {@link #createKernelCommunicator} waits for, and returns at
   * once. What fails here fails again there, where it is told.
   *
   * @param types as {@link LaunchOptions#preload}
   */
  default void prepareKernels(Set<DataType> types) {}

  /** Returns the room for blocks of kernels. */
  default BlockRoom blockRoom() {
    return BlockRoom.UNLIMITED;
  }

  /** Most ranks of a communicator with a rank on this device. */
  default int mostRanks() {
    return Integer.MAX_VALUE;
  }

  /**
   * Returns the buffer sizes of one connection on this device.
   *
   * @param nRanks how many ranks' connections one device holds
   */
  ConnectionLayout connectionLayout(int nRanks);

  /**
   * Why the driver has no multicast objects for this device, as a clause; null if it has. Calls
   * none of the driver's multicast functions.
   */
  String multicastAbsence();

  /** True if the switch that this device is at combines floating-point numbers of 8 bits. */
  default boolean switchCombinesBytes() {
    return false;
  }

  /**
   * One member's side of a multicast object. Nothing is allocated yet.
   *
   * @throws org.nccl4j.device.InvalidUsageException if this device has none of the form
   */
  MulticastObject multicast(MulticastObject.Form form, MulticastObject.Group group);

  /**
   * One member's side of a multicast object of the driver whose {@link MulticastObject#bind} binds
   * memory that the member has already, as much of it as the driver can. Nothing is called yet.
   *
   * @param own of this device
   * @throws org.nccl4j.device.InvalidUsageException if this device has no such objects
   */
  MulticastObject multicastOf(ShareableMemory own, MulticastObject.Group group);

  /**
   * Loads a range of all members' memories, combined as kernels of NVLS combine it, and waits until
   * it is there.
   *
   * @param offset in each memory; a multiple of 16
   * @param target memory of this device, of a multiple of 16 bytes, at most 16 KiB
   * @throws org.nccl4j.device.NcclException if the device cannot do so or does not end soon
   */
  void loadCombined(MulticastMemory all, DataType type, RedOp op, long offset, DeviceMemory target);

  /**
   * Stores a memory to a range of all members' memories, as kernels of NVLS do, and waits until it
   * is there; as {@link #loadCombined}.
   */
  void storeToAll(DeviceMemory source, MulticastMemory all, long offset);

  /**
   * Ranges of all members' memories between which a head moves data, a range for each block, at
   * equal distances.
   *
   * @param from offset of the first range that is loaded combined; a multiple of 16
   * @param to offset of the first range that is stored to all; likewise
   * @param blocks how many ranges
   * @param stride bytes from a range to the next
   * @param bytes of a range, a multiple of 4096
   */
  record MulticastRanges(long from, long to, int blocks, long stride, int bytes) {
    /** Bytes of all ranges. */
    public long total() {
      return (long) blocks * bytes;
    }
  }

  /**
   * Loads ranges of all members' memories, combined as sums of float32, and stores the sums to
   * others, over and over, as the kernels of NVLS do; returns once that has ended.
   *
   * @param rounds how often
   * @return the microseconds that it took
   * @throws org.nccl4j.device.NcclException if the device cannot do so or does not end soon
   */
  default double moveThroughAll(MulticastMemory all, MulticastRanges ranges, int rounds) {
    throw new InvalidUsageException(
        ErrorId.UNSUPPORTED, this + " has no switch to time", "use GPUs");
  }

  /** New memory that kernels and the host's threads both see; zeros. */
  PinnedMemory hostVisible(long bytes);

  /** A new gate for a stream of this device, which is open. */
  default StreamGate gate() {
    return StreamGate.OPEN;
  }

  /**
   * Why one-sided operations of this device do not reach ranks outside the team, as a clause; empty
   * if they do ({@link KernelCommunicator#attach(RmaSpace)}).
   */
  default Optional<String> remoteAbsence() {
    return Optional.empty();
  }

  /** Creates the object that runs a communicator's kernels on this device. */
  KernelCommunicator createKernelCommunicator(KernelCommunicatorSpec spec);

  /**
   * The slower ways that this process takes on the device and that its user can change: each with
   * the reason and the remedy.
   */
  default List<String> slowerWays() {
    return List.of();
  }

  /**
   * A gate before a stream's next work. What is launched while the gate is shut runs without gaps
   * once it is opened, so that its time is the device's and not that of the launching thread. Used
   * by one thread.
   */
  interface StreamGate extends AutoCloseable {
    /** A gate that is always open, for devices whose streams cannot wait. */
    StreamGate OPEN =
        new StreamGate() {
          @Override
          public void shut(DeviceStream stream) {}

          @Override
          public void open() {}

          @Override
          public void close() {}
        };

    /** Has what is launched into a stream from now on wait until {@link #open}. */
    void shut(DeviceStream stream);

    /** Opens the gate; calling it again does nothing. */
    void open();

    /** Opens the gate and frees it; the stream must be idle by then. */
    @Override
    void close();
  }
}
