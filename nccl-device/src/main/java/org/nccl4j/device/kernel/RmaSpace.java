package org.nccl4j.device.kernel;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.connection.Connection;

/**
 * The connections of one-sided operations with ranks outside the team: one in each direction, only
 * for these ({@link RmaMessage}). The processor writes arriving data into this rank's windows, or
 * starts copies that do; so the processor needs access to the connections' slots.
 *
 * @param sends connection to each rank, by rank; null for ranks of the team, and for those that are
 *     connected later ({@link Arrivals#connect})
 * @param recvs connection from each rank, likewise
 * @param windows those of this rank
 */
public record RmaSpace(List<Connection> sends, List<Connection> recvs, Windows windows) {
  /** Copies the lists. */
  public RmaSpace {
    sends = Collections.unmodifiableList(new ArrayList<>(sends));
    recvs = Collections.unmodifiableList(new ArrayList<>(recvs));
  }

  /** A rank's windows, by their numbers. Any thread. */
  public interface Windows {
    /**
     * True if a window is yet to be registered here: another rank may be done before this one, and
     * put into it.
     */
    boolean isToCome(long number);

    /** The memory of one that has been registered; null once it is deregistered. */
    DeviceMemory memory(long number);
  }

  /**
   * The memory into which messages of ranks outside the team may write.
   *
   * @param rank this one
   * @param windows those of this rank
   * @param room most bytes of a message's data
   */
  public record Targets(int rank, Windows windows, long room) {
    /**
     * The memory of the window that a message names.
     *
     * @param peer who sends it
     * @param bytes that are to be written at the offset
     * @throws InvalidUsageException if they do not lie in a window that is registered here
     */
    public DeviceMemory of(int peer, long window, long offset, int bytes) {
      return of(peer, window, offset, bytes, 0);
    }

    /**
     * The same of a message behind which more data come.
     *
     * @param behind bytes that are to be written at the offset, before those of the message
     */
    public DeviceMemory of(int peer, long window, long offset, int bytes, long behind) {
      DeviceMemory target = windows.memory(window);
      if (!fit(target, offset, bytes, behind)) {
        throw new InvalidUsageException(
            ErrorId.HANDLE,
            "rank %d puts %d bytes at byte %d of window %d of rank %d, which %s"
                .formatted(peer, bytes + behind, offset, window, rank, state(target)),
            "deregister a window after the last put into it, on all ranks in the same order");
      }
      return target;
    }

    /**
     * The same of the answer to a get of this rank.
     *
     * @param peer whose window the data come from
     */
    public DeviceMemory ofAnswer(int peer, long window, long offset, int bytes, long behind) {
      DeviceMemory target = windows.memory(window);
      if (!fit(target, offset, bytes, behind)) {
        throw new InvalidUsageException(
            ErrorId.HANDLE,
            "the answer of rank %d to a get of rank %d is of %d bytes at byte %d of window %d, which %s"
                .formatted(peer, rank, bytes + behind, offset, window, state(target)),
            "call Gin::flush, or flush on the host, before you deregister the target of a get");
      }
      return target;
    }

    private boolean fit(DeviceMemory target, long offset, int bytes, long behind) {
      return bytes >= 0
          && bytes <= room
          && behind >= 0
          && target != null
          && offset >= 0
          && behind <= target.size() - bytes
          && offset <= target.size() - bytes - behind;
    }

    private static String state(DeviceMemory target) {
      return target == null ? "is not registered there" : "has " + target.size() + " bytes";
    }
  }

  /** Messages from ranks outside the team. */
  public interface Arrivals {
    /**
     * Puts what has come where it belongs and returns how many messages those were. Called by one
     * thread at a time; never waits.
     *
     * @throws org.nccl4j.device.NcclException for a message that makes no sense
     */
    int doWork();

    /**
     * Adds the connections with a rank that had none: before the first put to it is prepared, and
     * before its first message is looked for. Any thread, until {@link #end}.
     */
    void connect(int rank, Connection send, Connection recv);

    /** Returns when nothing is being written into windows any more; after the last turn. */
    default void end() {}

    /**
     * Returns the number of messages that this rank's kernels have sent to a rank. Safe from any
     * thread.
     */
    long sent(int rank);

    /** Returns the number of a rank's messages whose data are in place. Safe from any thread. */
    long arrived(int rank);
  }

  /** Puts, gets and signals that kernels begin, with ranks outside the team. */
  public interface KernelPuts extends AutoCloseable {
    /**
     * Sends and receives what can be now and returns how much that was. Called by one thread at a
     * time; never waits.
     *
     * @throws org.nccl4j.device.NcclException for a put of a kernel, or a message, that makes no
     *     sense
     */
    int doWork();

    /** Makes the ring of a device communicator; in the same order on all ranks. Any thread. */
    KernelRing open(int signals);

    /** Ends the waits of kernels: the communicator has failed. Any thread. */
    void release();

    /** Nothing is sent or written from now on; false if a thread's turn does not end. */
    boolean end();

    /** Frees what is left, after {@link #end}. */
    @Override
    void close();
  }

  /**
   * A put of a kernel, between windows of the communicator, or a get.
   *
   * @param rank outside the team
   * @param window number of its window, the target of a put; of any value without bytes
   * @param sourceWindow number of this rank's window that has a put's data; likewise
   * @param signal of the rank, raised after the data; -1 for none, and of a get
   * @param get true if the data go from the rank's window into this rank's
   */
  public record KernelPut(
      int rank,
      long window,
      long offset,
      long sourceWindow,
      long sourceOffset,
      long bytes,
      int signal,
      boolean get) {}

  /**
   * A device communicator's ring of puts, and its signals. Any thread. Waits return false when the
   * time is over, and at once when the communicator has failed or the ring is closed.
   */
  public interface KernelRing extends AutoCloseable {
    /** Returns the address of the {@code nccl4jGinRing} for kernels. */
    long address();

    /** Returns the offset in it of the descriptors. */
    long descriptors();

    /** Returns the number of descriptors: a power of two, or 0 without ranks outside the team. */
    int slots();

    int signals();

    /** Returns the bytes of its memory, which is pinned memory of the host. */
    long bytesOfMemory();

    /** Begins a put or get of a kernel of the host; false if the ring stays full. */
    boolean post(KernelPut put, Duration patience);

    /** Waits until all puts' sources so far can be written again, and all gets' data are here. */
    boolean awaitFlushed(Duration patience);

    /** Waits until the data of all puts and gets so far are in the windows. */
    boolean awaitArrived(Duration patience);

    /** Returns how often ranks outside the team have raised a signal. */
    long signal(int index);

    /** Returns the last wait of a kernel that was in vain, as the header writes it; 0 for none. */
    long problem();

    /** True if the communicator has failed, or the ring is closed. */
    boolean isOver();

    /** Ends the waits of kernels and frees the memory. Idempotent. */
    @Override
    void close();
  }
}
