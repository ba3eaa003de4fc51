package org.nccl4j.device.kernel;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.nccl4j.device.DeviceMemory;

/**
 * The connections of one-sided operations with ranks outside the team: one in each direction, only
 * for these ({@link RmaMessage}). The processor writes arriving data into this rank's windows, or
 * starts copies that do; so the processor needs access to the connections' slots.
 *
 * @param sends connection to each rank, by rank; null for ranks of the team
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

  /** Messages from ranks outside the team. */
  public interface Arrivals {
    /**
     * Puts what has come where it belongs and returns how many messages those were. Called by one
     * thread at a time; never waits.
     *
     * @throws org.nccl4j.device.NcclException for a message that makes no sense
     */
    int doWork();

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
}
