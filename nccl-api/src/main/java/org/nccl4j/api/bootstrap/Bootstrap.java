package org.nccl4j.api.bootstrap;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.nccl4j.device.NcclException;

/**
 * The ranks' way to talk before, and beside, the transports: small messages, slowly, with a
 * deadline. Calls that exchange are collective: every rank makes the same ones in the same order,
 * from one thread at a time; {@code tell} and {@code close} may come from any thread.
 */
public interface Bootstrap extends AutoCloseable {
  /** This rank. */
  int rank();

  /** All ranks. */
  int nRanks();

  /** 16 bytes that the ranks of this communicator, and nobody else, know. */
  byte[] secret();

  /**
   * Gives every rank everybody's bytes, by rank. Lengths may differ; each at most 1 MiB.
   *
   * @throws NcclException naming the rank that did not take part, when the deadline passes, and
   *     with the first cause, when another rank failed
   */
  List<byte[]> allGather(byte[] mine);

  /** Returns once every rank has called it; throws as {@link #allGather}. */
  void barrier();

  /**
   * Returns the time by which an exchange that begins now must have ended, on the clock of
   * System.nanoTime. While a communicator is being made, one deadline covers all of it, counted
   * from when the ranks began to meet. Otherwise every exchange has the whole deadline.
   */
  long exchangeEnd();

  /** Something is made anew over this bootstrap: one deadline from now on, until {@link #made}. */
  void making();

  /** Ends what was begun when the ranks met or by {@link #making}. */
  void made();

  /**
   * Tells all other ranks that this one failed, with the cause; they hear it by the listener they
   * gave. Best effort, never throws, does not wait long.
   */
  void tellFailure(NcclException cause);

  /**
   * Sets the listener for failures of other ranks. It is called at most once, when another rank
   * tells of its failure or its process dies without having closed, with a RemoteException (or the
   * told error's own kind) that names the rank and its cause. It is called on a thread of the
   * bootstrap, or at once if the failure has already happened.
   */
  void onFailure(Consumer<NcclException> listener);

  /**
   * Throws another rank's failure if this rank has heard of one; for waits beside the bootstrap.
   * Neither waits nor sends.
   */
  void checkFailure();

  /**
   * Tells all ranks of other processes something that they can do without; at most 16 KiB, now and
   * then. Neither waits nor throws. Once the root is gone it is lost on the way to ranks whose
   * neighbours have left.
   */
  void tellNotice(byte[] notice);

  /**
   * Calls a listener with the notices of other ranks, those that have come already first; on a
   * thread of the bootstrap, so the listener must be quick.
   */
  void onNotice(Consumer<byte[]> listener);

  /**
   * Sets what this rank answers when a {@link JobObserver} asks for the state of all ranks: at most
   * 48 KiB. Called on a thread of the bootstrap, so it must be quick.
   */
  void onStateAsked(Supplier<byte[]> listener);

  /**
   * Returns the address at which other ranks find this one for {@link #reunite}; at most 128 bytes.
   */
  byte[] meetingPoint();

  /** Answers the calls of other ranks. */
  @FunctionalInterface
  interface CallListener {
    /**
     * A call has come; on a thread of the bootstrap, so the listener must be quick.
     *
     * @param answer takes what the caller gets, once, on any thread; null to refuse
     */
    void called(byte[] request, Consumer<byte[]> answer);
  }

  /** Sets the listener for other ranks' calls, which gets those that have come already first. */
  void onCall(CallListener listener);

  /**
   * Calls one other rank, which need not call anything itself.
   *
   * @param point the other's {@link #meetingPoint}
   * @param request at most 3 KiB
   * @return the answer, at most 3 KiB; fails with an IOException if the other cannot be reached or
   *     refuses. It has no deadline, but ends when it is cancelled
   */
  CompletableFuture<byte[]> call(byte[] point, byte[] request);

  /**
   * Another bootstrap, of some of the ranks. These ranks all make the same call; it returns once
   * they are together. Works after a failure of this one too, until it is closed.
   *
   * @param members ranks of this bootstrap in their new order, this one among them
   * @param lead the meeting point of the first of them
   * @param key the same for all of them, another at each call
   * @throws NcclException naming who did not come, when the deadline passes
   */
  Bootstrap reunite(List<Integer> members, byte[] lead, String key);

  /**
   * Leaves: after it, the others do not count this rank's silence as a failure. Never waits for
   * them. Calling it again does nothing.
   */
  @Override
  void close();
}
