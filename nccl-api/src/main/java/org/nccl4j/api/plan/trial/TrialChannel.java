package org.nccl4j.api.plan.trial;

import java.util.function.Consumer;
import org.nccl4j.device.NcclException;

/** Carries notices about trials among the ranks of a communicator on several machines. */
public interface TrialChannel {
  /** The ranks to which a notice goes: all of the bootstrap that communicators may share. */
  int nRanks();

  /**
   * True if no proposal of this process is within its pause; then the caller's begins one, for all
   * communicators that share the bootstrap. Never waits.
   */
  boolean mayPropose(long pauseNanos);

  /** Sends a notice to all other ranks. Neither waits nor throws; a notice may be lost. */
  void tell(byte[] notice);

  /**
   * Sets the listener for the notices of other ranks, which also gets those of other kinds and
   * communicators. It is called on a thread of the bootstrap, and must be quick.
   */
  void listen(Consumer<byte[]> listener);

  /** Ends the communicator on all ranks. */
  void fail(NcclException cause);

  /** Calls the listener no more. */
  void close();
}
