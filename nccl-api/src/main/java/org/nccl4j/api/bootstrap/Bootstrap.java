package org.nccl4j.api.bootstrap;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import org.nccl4j.device.NcclException;

/**
 * Communication among the ranks before and besides the transports: small, slow messages with a
 * deadline. Exchanges are collective: every rank makes the same calls in the same order, from one
 * thread at a time; {@code tell} and {@code close} may come from any thread.
 */
public interface Bootstrap extends AutoCloseable {
  /** This rank. */
  int rank();

  /** All ranks. */
  int nRanks();

  /** 16 bytes that only the ranks of this communicator know. */
  byte[] secret();

  /**
   * Returns all ranks' bytes, by rank. Lengths may differ; each at most 1 MiB.
   *
   * @throws NcclException naming the rank that did not take part, when the deadline passes, and
   *     with the first cause, when another rank failed
   */
  List<byte[]> allGather(byte[] mine);

  /** The order of this rank's calls that make exchanges, for calls of several threads. */
  CallOrder calls();

  /** Returns once every rank has called it; throws as {@link #allGather}. */
  void barrier();

  /**
   * Returns the time by which an exchange that begins now must have ended, on the clock of
   * System.nanoTime. One deadline covers the whole creation of a communicator, from the beginning
   * of the bootstrap. Later, every exchange has the whole deadline.
   */
  long exchangeEnd();

  /** Begins another creation over this bootstrap, with one deadline until {@link #made}. */
  void making();

  /** Ends a creation that was begun by the bootstrap itself or by {@link #making}. */
  void made();

  /**
   * Reports this rank's failure, with the cause, to the listeners of all ranks. Best effort, never
   * throws, does not wait long.
   */
  void tellFailure(NcclException cause);

  /**
   * Sets the listener for failures. It is called at most once, for the first failure: when another
   * rank reports one or its process dies without closing, with a RemoteException (or an exception
   * of the reported kind) that names the rank and its cause; and when this rank reports one, as a
   * failed exchange does, with that. It is called on a thread of the bootstrap or on the thread
   * that reports, or at once if the failure has already happened.
   */
  void onFailure(Consumer<NcclException> listener);

  /**
   * Throws another rank's failure if one was reported; for waits outside the bootstrap. Neither
   * waits nor sends.
   */
  void checkFailure();

  /**
   * Sends an optional notice of at most 16 KiB to all ranks of other processes. Neither waits nor
   * throws. After the root has ended, ranks whose neighbours have left do not receive it.
   */
  void tellNotice(byte[] notice);

  /**
   * Calls a listener with the notices of other ranks, earlier ones first, on a thread of the
   * bootstrap; the listener must be quick.
   */
  void onNotice(Consumer<byte[]> listener);

  /**
   * Sets the source of this rank's answers to a {@link JobObserver}: it gets the question, which is
   * empty for the rank's state, and gives at most 48 KiB. Called on a thread of the bootstrap, so
   * it must be quick.
   */
  void onAsked(UnaryOperator<byte[]> listener);

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
   * @param request at most 12 KiB
   * @return the answer, at most 12 KiB; fails with an IOException if the other cannot be reached or
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
   * Another bootstrap, of some of the ranks, as {@link #reunite}; but these ranks fail with all
   * ranks of this one. Its failure ends this call and the other's exchanges, now and later.
   *
   * @throws NcclException also with the first cause, when this bootstrap has failed
   */
  Bootstrap subset(List<Integer> members, byte[] lead, String key);

  /**
   * Leaves: after it, the others do not count this rank's silence as a failure. Never waits for
   * them. Calling it again does nothing.
   */
  @Override
  void close();
}
