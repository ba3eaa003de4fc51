package org.nccl4j.device.connection;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.operation.Protocol;

/**
 * One end's view of a connection: both regions, reachable by loads and stores of this end's device.
 *
 * @param data the data side, which lies with the receiver; at least {@link
 *     ConnectionLayout#dataBytes()} bytes, zero when new, aligned to 256 bytes
 * @param credit the credit side, which lies with the sender; {@link ConnectionLayout#CREDIT_BYTES}
 *     bytes, zero when new, aligned to 256 bytes
 * @param carried of a GPU's connection over a network, how many channels a proxy carries to the
 *     other end: the first ones, in Simple; 0 where all channels and protocols can be used
 * @param lines whether the proxy carries those channels in LL too
 * @param exposed of a GPU's connection: the steps of its first channel that the proxy sends from
 *     buffers; null where it sends none so. Kernels of the host expose by words, and learn by words
 *     whether they may
 * @param placed likewise, the steps that the proxy receives in buffers
 */
public record Connection(
    DeviceMemory data,
    DeviceMemory credit,
    int carried,
    boolean lines,
    ExposedSteps exposed,
    PlacedSteps placed) {
  /** A connection whose steps are all in slots, or of the host device. */
  public Connection(DeviceMemory data, DeviceMemory credit, int carried, boolean lines) {
    this(data, credit, carried, lines, null, null);
  }

  /** A connection whose channels can all be used. */
  public Connection(DeviceMemory data, DeviceMemory credit) {
    this(data, credit, 0, /* lines= */ true);
  }

  /** The same connection, whose proxy uses buffers; either may be null. */
  public Connection withBuffers(ExposedSteps newExposed, PlacedSteps newPlaced) {
    return new Connection(data, credit, carried, lines, newExposed, newPlaced);
  }

  /** True if a protocol's slots can be used. */
  public boolean has(Protocol protocol) {
    return carried == 0 || protocol == Protocol.SIMPLE || lines && protocol == Protocol.LL;
  }

  /** Channels that can be used. */
  public int channels() {
    return carried == 0 ? ConnectionLayout.CHANNELS : carried;
  }

  /**
   * The steps of a connection whose data stay in the kernel's buffer, from where a proxy sends
   * them, instead of in a slot. The buffer stays as it is until the head says that the step has
   * been sent. Called by the thread that gives the connection's proxy its turns.
   */
  public interface ExposedSteps {
    /** Tells the kernels, once, that they may expose steps. */
    @HotPath
    void answer();

    /** True if the data of a step that is filled lie in the kernel's buffer. */
    @HotPath
    boolean isExposed(long step);

    /**
     * Begins to read a step's data. From then on a kernel that fails waits until the head is beyond
     * the step, or until {@link #end}.
     *
     * @return false if the kernel has failed: then the buffer must not be read
     */
    @HotPath
    boolean begin(long step);

    /** Returns the bytes of an exposed step. */
    @HotPath
    int bytes(long step);

    /** Returns the buffer of an exposed step. */
    @HotPath
    DeviceMemory memory(long step);

    /** Returns the offset of an exposed step's data in its buffer, in bytes. */
    @HotPath
    long offset(long step);

    /**
     * Copies an exposed step's data into its slot, after which the step's offset is lost: for what
     * the network cannot send from its buffer.
     */
    @HotPath
    void fill(long step, int bytes);

    /** After a failure: no buffer is read any more. */
    void end();
  }

  /**
   * The steps of a connection whose data a proxy receives where the kernel wants them, in its
   * buffer, instead of in a slot. A kernel wants the step that it waits for and some after it, in
   * order, with gaps. Called by the thread that gives the connection's proxy its turns.
   */
  public interface PlacedSteps {
    /** Returns the last step whose data the kernel wants in its buffer; -1 if there was none. */
    @HotPath
    long wanted();

    /**
     * True if the kernel wants the data of a step, which it has not received yet, in its buffer.
     * The methods below tell of such a step, directly afterwards.
     */
    @HotPath
    boolean isWanted(long step);

    /**
     * True if the sender may wait until it knows where the data of an exposed step go. Then the
     * kernel tells of each such step, and the network tells the sender of each. Always the same.
     */
    default boolean areAwaited() {
      return false;
    }

    /** True if the kernel has told that the data of a step go to the slot. */
    @HotPath
    default boolean isDeclined(long step) {
      return false;
    }

    /** Returns the buffer of a wanted step. */
    @HotPath
    DeviceMemory memory(long step);

    /** Returns the address for the data of a wanted step, in the buffer. */
    @HotPath
    long address(long step);

    /** Returns the number of bytes that a wanted step has to have. */
    @HotPath
    int bytes(long step);

    /**
     * Tells the kernel that a step's data are where it wants them; before it is told of the step.
     */
    @HotPath
    void placed(long step);
  }
}
