package org.nccl4j.device.host.kernel.protocol;

import java.lang.invoke.VarHandle;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;

/**
 * The sender's part of single copies on one connection: it offers its buffers, lends the receiver
 * those of some steps, and revokes what is lent when it fails. Shared by the communicators that
 * share the connection; owned by the thread that runs the current kernel.
 *
 * <p>Words in the data side, among those of channels that the host does not use:
 *
 * <pre>
 * 128  offer: the number in {@link LentMemory}, stored last; 0 without an offer
 * 136  the sender's process
 * 144  address of a pattern of 16 bytes in the sender's memory
 * 152  the pattern
 * 256  revoked: 1 once the sender has failed
 * </pre>
 *
 * <p>Words in the credit side:
 *
 * <pre>
 * 128  answer: 0 while there is none, then one of the values below; between processes, the least
 *      bytes of a step that the receiver reads in the bits from 8 on
 * 256  reading: s + 1 while the receiver reads what was lent for step s
 * </pre>
 *
 * <p>A lent step has the complement of its bytes as its size. Its slot holds 8 bytes: the offset in
 * the memory in {@link LentMemory}, or the address in the sender's process. The receiver stores
 * "reading", then loads "revoked", with a full fence between; a sender that fails stores "revoked",
 * then loads "reading". So either the receiver sees that it must not read, or the sender sees that
 * it has to wait until the head says that the step was read.
 */
final class Lending {
  static final long OFFER = 128;
  static final long PROCESS = 136;
  static final long PATTERN_ADDRESS = 144;
  static final long PATTERN = 152;
  static final long REVOKED = 256;
  static final long ANSWER = 128;
  static final long READING = 256;

  /** The receiver cannot read the sender's memory, or must not. */
  static final long BY_SLOTS = 1;

  /** The receiver finds the memory in {@link LentMemory}. */
  static final long IN_PROCESS = 2;

  /** The receiver reads addresses of the sender's process. */
  static final long BETWEEN_PROCESSES = 3;

  /** The part of an answer that is one of the values above. */
  private static final long WAY = 0xff;

  private static final int LEAST_SHIFT = 8;

  private final ConnectionLayout layout;
  private final HostMemory data;
  private final HostMemory credit;
  private final SingleCopy sizes;
  private final long number;

  /** Memory of the lent steps, by slot. Read by a receiver in this process. */
  private final HostMemory[] lent = new HostMemory[ConnectionLayout.STEPS];

  private long answer;

  /** Least bytes of a step that is lent; as long as there is no answer, of no step. */
  private int least = SingleCopy.NEVER;

  /** Makes the offer. */
  Lending(HostMemory data, HostMemory credit, ConnectionLayout layout, SingleCopy sizes) {
    this.layout = layout;
    this.data = data;
    this.credit = credit;
    this.sizes = sizes;
    this.number = LentMemory.add(lent);
    AtomicWords.storeRelease(data, PROCESS, ProcessHandle.current().pid());
    AtomicWords.storeRelease(data, PATTERN_ADDRESS, LentMemory.patternAddress());
    AtomicWords.storeRelease(data, PATTERN, LentMemory.pattern(0));
    AtomicWords.storeRelease(data, PATTERN + Long.BYTES, LentMemory.pattern(1));
    AtomicWords.storeRelease(data, OFFER, number);
  }

  /** True if a step of so many bytes is to be lent. */
  @HotPath
  boolean takes(int bytes) {
    if (answer == 0) {
      hear();
    }
    return bytes >= least;
  }

  /** True if the receiver, which has answered, can copy lent data, but not reduce them. */
  @HotPath
  boolean onlyCopies() {
    return answer == BETWEEN_PROCESSES;
  }

  @HotPath
  private void hear() {
    long heard = AtomicWords.loadAcquire(credit, ANSWER);
    answer = heard & WAY;
    if (answer == IN_PROCESS) {
      least = sizes.inProcess();
    } else if (answer == BETWEEN_PROCESSES) {
      least = Math.max(sizes.betweenProcesses(), (int) (heard >> LEAST_SHIFT));
    }
  }

  /** The word of an answer. */
  static long answer(long way, int leastBytes) {
    return way == BETWEEN_PROCESSES ? way | (long) leastBytes << LEAST_SHIFT : way;
  }

  /** Puts what a step is to be read from into its slot. */
  @HotPath
  void lend(long step, HostMemory memory, long offset) {
    int slot = (int) step & (ConnectionLayout.STEPS - 1);
    lent[slot] = memory;
    long at = layout.simple(step);
    long word = answer == IN_PROCESS ? offset : memory.address() + offset;
    data.window(at).putLong(data.index(at), word);
  }

  /** All that was lent has come back. */
  @HotPath
  void forget() {
    for (int slot = 0; slot < lent.length; slot++) {
      lent[slot] = null;
    }
  }

  /** From now on the receiver begins to read nothing that is lent. */
  void revoke() {
    AtomicWords.storeRelease(data, REVOKED, 1);
    VarHandle.fullFence();
  }

  /** True while the receiver reads something that was lent. */
  boolean isBeingRead() {
    long reading = AtomicWords.loadAcquire(credit, READING);
    return reading > AtomicWords.loadAcquire(credit, ConnectionLayout.HEAD);
  }

  /** Keeps what is lent for good, since the receiver does not stop reading. */
  void keep() {
    for (HostMemory memory : lent) {
      if (memory != null && answer == IN_PROCESS) {
        LentMemory.keep(memory);
      }
    }
  }

  void close() {
    LentMemory.remove(number);
  }
}
