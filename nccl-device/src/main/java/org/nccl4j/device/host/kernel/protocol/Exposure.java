package org.nccl4j.device.host.kernel.protocol;

import java.lang.System.Logger;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.CopyReason;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.MappableSegment;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.os.OtherProcess;
import org.nccl4j.device.os.ThisProcess;
import org.nccl4j.device.shm.SharedSegment;

/**
 * The sender's part of single copies on one connection: it offers its buffers, exposes those of
 * some steps, and revokes what is exposed when it fails. Where a network carries the connection,
 * the receiver is this rank's proxy ({@link ProxyExposures}). Shared by the communicators that
 * share the connection; owned by the thread that runs the current kernel.
 *
 * <p>Words in the data side, among those of channels that the host does not use:
 *
 * <pre>
 * 128  offer: the number in {@link ExposedMemory}, stored last; 0 without an offer
 * 136  the sender's process
 * 144  address of a pattern of 16 bytes in the sender's memory
 * 152  the pattern, of 16 bytes
 * 168  file descriptor in the sender's process of a segment that holds the pattern, plus 1; 0: none
 * 256  revoked: 1 once the sender has failed
 * </pre>
 *
 * <p>Words in the credit side:
 *
 * <pre>
 * 128  answer: 0 while there is none, then one of the values below, with {@link #MAPPED} if the
 *      receiver also maps segments; from another process or a proxy, the least bytes of a step that
 *      it reads in the bits from 8 on
 * 136  the receiver's process, stored before the answer; 0: a proxy of this one
 * 256  reading: s + 1 while the receiver reads what was exposed for step s
 * </pre>
 *
 * <p>An exposed step has the complement of its bytes as its size. Its slot holds 8 bytes: the
 * offset in the memory in {@link ExposedMemory}, or the address in the sender's process. 24 bytes
 * more name the segment that the memory lies in, and make the first 8 the offset in it: its number,
 * its descriptor and its bytes; all 0 if there is none. 32 bytes alike follow where the sender
 * exposes a second memory, for the receiver to write to. The receiver stores "reading", then loads
 * "revoked", with a full fence between; a sender that fails stores "revoked", then loads "reading".
 * So either the receiver sees that it must not read, or the sender sees that it has to wait until
 * the head says that the step was read, or the receiver's process has ended.
 */
final class Exposure {
  private static final Logger LOG = DebugLog.of("P2P");

  static final long OFFER = 128;
  static final long PROCESS = 136;
  static final long PATTERN_ADDRESS = 144;
  static final long PATTERN = 152;
  static final long DESCRIPTOR = 168;
  static final long REVOKED = 256;
  static final long ANSWER = 128;
  static final long READER = 136;
  static final long READING = 256;

  /** The receiver cannot read the sender's memory, or must not. */
  static final long BY_SLOTS = 1;

  /** The receiver finds the memory in {@link ExposedMemory}. */
  static final long IN_PROCESS = 2;

  /** The receiver reads addresses of the sender's process. */
  static final long BETWEEN_PROCESSES = 3;

  /** A proxy sends the sender's memory over a network. It finds it in {@link ExposedMemory}. */
  static final long BY_PROXY = 4;

  /** The same, of memory that its user has registered alone. */
  static final long BY_PROXY_REGISTERED = 5;

  /** Added to an answer: the receiver maps the segments that steps lie in. */
  static final long MAPPED = 0x10;

  /** Words of an exposed step. */
  static final int PLACE = 0;

  static final int SEGMENT = 8;
  static final int SEGMENT_DESCRIPTOR = 16;
  static final int SEGMENT_BYTES = 24;

  /** An exposed step's memories: the one to read, and the one to write to. */
  static final int SOURCE = 0;

  static final int TARGET = 1;

  /** Bytes of the words of one of them. */
  static final int PLACE_BYTES = 32;

  /** The part of an answer that is one of the values above. */
  private static final long WAY = 0xf;

  private static final int LEAST_SHIFT = 8;

  private final ConnectionLayout layout;
  private final HostMemory data;
  private final HostMemory credit;
  private final SingleCopy sizes;
  private final long number;

  /** Kept open for the receiver; null where memory cannot be shared, and once closed. */
  private SharedSegment pattern;

  /** Memory of the exposed steps, by {@link #index}. Read by a receiver in this process. */
  private final HostMemory[] exposed = new HostMemory[2 * ConnectionLayout.STEPS];

  private long answer;

  /** Least bytes of a step that is exposed; as long as there is no answer, of no step. */
  private int least = SingleCopy.NEVER;

  /** The same where the step's memory lies in a segment. */
  private int leastMapped = SingleCopy.NEVER;

  /** True if it tells why steps are copied whose memory the receiver could map otherwise. */
  private boolean tells;

  /** Makes the offer. */
  Exposure(HostMemory data, HostMemory credit, ConnectionLayout layout, SingleCopy sizes) {
    this.layout = layout;
    this.data = data;
    this.credit = credit;
    this.sizes = sizes;
    this.number = ExposedMemory.add(exposed);
    AtomicWords.storeRelease(data, PROCESS, ThisProcess.pid());
    AtomicWords.storeRelease(data, PATTERN_ADDRESS, ExposedMemory.patternAddress());
    AtomicWords.storeRelease(data, PATTERN, ExposedMemory.pattern(0));
    AtomicWords.storeRelease(data, PATTERN + Long.BYTES, ExposedMemory.pattern(1));
    if (sizes.mapped() != SingleCopy.NEVER) {
      pattern = ExposedMemory.openPattern();
      AtomicWords.storeRelease(data, DESCRIPTOR, pattern == null ? 0 : pattern.fd() + 1);
    }
    AtomicWords.storeRelease(data, OFFER, number);
  }

  /**
   * True if a step of so many bytes of a memory is to be exposed.
   *
   * @param reduced whether the receiver reduces the step's data, instead of copying them
   */
  @HotPath
  boolean takes(HostMemory memory, int bytes, boolean reduced) {
    if (answer == 0) {
      hear();
    }
    if (bytes >= leastMapped && memory.segment() != null) {
      return true;
    }
    boolean takes =
        bytes >= least
            && !(reduced && answer == BETWEEN_PROCESSES)
            && (answer != BY_PROXY_REGISTERED || memory.isRegistered());
    if (!takes && tells && bytes >= leastMapped) {
      tell(memory);
    }
    return takes;
  }

  /** Tells once why a memory is not mapped, though the connection's own line says that it can. */
  private void tell(HostMemory memory) {
    CopyReason reason = memory.copied();
    if (reason != null && reason.tell()) {
      LOG.log(
          sizes.level(), "data of some buffers are copied twice to other processes: {0}", reason);
    }
  }

  @HotPath
  private void hear() {
    long heard = AtomicWords.loadAcquire(credit, ANSWER);
    answer = heard & WAY;
    if ((heard & MAPPED) != 0) {
      leastMapped = sizes.mapped();
      tells = LOG.isLoggable(sizes.level());
    }
    if (answer == IN_PROCESS) {
      least = sizes.inProcess();
    } else if (answer == BETWEEN_PROCESSES) {
      least = Math.max(sizes.betweenProcesses(), (int) (heard >> LEAST_SHIFT));
    } else if (isByProxy(answer)) {
      least = (int) (heard >> LEAST_SHIFT);
    }
  }

  /** The word of an answer. */
  static long answer(long way, int leastBytes, boolean maps) {
    long word = maps ? way | MAPPED : way;
    boolean sized = way == BETWEEN_PROCESSES || isByProxy(way);
    return sized ? word | (long) leastBytes << LEAST_SHIFT : word;
  }

  /** Where a step's source or target is in the array of exposed memory. */
  @HotPath
  static int index(long step, int which) {
    return which * ConnectionLayout.STEPS + ((int) step & (ConnectionLayout.STEPS - 1));
  }

  /** Puts what a step is to be read from, or written to, into its slot. */
  @HotPath
  void expose(long step, int which, HostMemory memory, long offset) {
    exposed[index(step, which)] = memory;
    long at = layout.simple(step) + which * PLACE_BYTES;
    ByteBuffer words = data.window(at);
    int index = data.index(at);
    MappableSegment segment =
        leastMapped == SingleCopy.NEVER || isFound() ? null : memory.segment();
    if (segment == null) {
      words.putLong(index + PLACE, isFound() ? offset : memory.address() + offset);
      words.putLong(index + SEGMENT, 0);
      return;
    }
    segment.offer();
    words.putLong(index + PLACE, segment.offset(memory.address() + offset));
    words.putLong(index + SEGMENT, segment.number());
    words.putLong(index + SEGMENT_DESCRIPTOR, segment.descriptor());
    words.putLong(index + SEGMENT_BYTES, segment.bytes());
  }

  /** True if the receiver finds what is exposed in {@link ExposedMemory}. */
  @HotPath
  private boolean isFound() {
    return answer == IN_PROCESS || isByProxy(answer);
  }

  @HotPath
  private static boolean isByProxy(long way) {
    return way == BY_PROXY || way == BY_PROXY_REGISTERED;
  }

  /** True if the receiver's processor can access what is exposed, once it has answered. */
  @HotPath
  boolean isReached() {
    return !isByProxy(answer);
  }

  /** All that was exposed has come back. */
  @HotPath
  void forget() {
    for (int slot = 0; slot < exposed.length; slot++) {
      exposed[slot] = null;
    }
  }

  /** From now on the receiver begins to read nothing that is exposed. */
  void revoke() {
    AtomicWords.storeRelease(data, REVOKED, 1);
    VarHandle.fullFence();
  }

  /** True while the receiver reads something that was exposed. */
  boolean isBeingRead() {
    long reading = AtomicWords.loadAcquire(credit, READING);
    return reading > AtomicWords.loadAcquire(credit, ConnectionLayout.HEAD);
  }

  /** True if the receiver's process has ended, which reads nothing any more. */
  boolean hasReaderEnded() {
    long reader = AtomicWords.loadAcquire(credit, READER);
    return reader != 0 && OtherProcess.hasEnded(reader);
  }

  /** Keeps what is exposed for good, since the receiver does not stop reading. */
  void keep() {
    for (HostMemory memory : exposed) {
      if (memory != null && isFound()) {
        ExposedMemory.keep(memory);
      }
    }
  }

  void close() {
    ExposedMemory.remove(number);
    if (pattern != null) {
      ExposedMemory.closePattern(pattern);
      pattern = null;
    }
  }
}
