package org.nccl4j.device.host.kernel.protocol;

import java.lang.System.Logger;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.ProcessCopyProbe;
import org.nccl4j.device.host.memory.ProcessMemory;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.CopyTimes;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.os.ThisProcess;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.SharedSegment;

/**
 * The receiver's part of single copies on one connection: it answers the sender's offer, and finds
 * what the sender exposes; see {@link Exposure}. Shared by the communicators that share the
 * connection; owned by the thread that runs the current kernel.
 */
final class ExposureReader {
  private static final Logger LOG = DebugLog.of("P2P");

  private final ConnectionLayout layout;
  private final HostMemory data;
  private final HostMemory credit;
  private final SingleCopy sizes;

  /** This rank and its peer, for messages. */
  private final String ranks;

  private long answer;

  /** Least bytes of a step that is read from another process. */
  private int least;

  /** Buffers that a sender in this process exposes, by {@link Exposure#index}. */
  private HostMemory[] exposed;

  /** The sender's process, if it is another one that can be read. */
  private ProcessMemory process;

  /** The sender's segments; null unless they can be mapped. */
  private PeerSegments segments;

  /** True while the sender is told that a step is being read. */
  private boolean reading;

  ExposureReader(
      HostMemory data, HostMemory credit, ConnectionLayout layout, SingleCopy sizes, String ranks) {
    this.layout = layout;
    this.data = data;
    this.credit = credit;
    this.sizes = sizes;
    this.ranks = ranks;
  }

  /** Answers the sender's offer if there is one, and no answer yet. */
  @HotPath
  void answer() {
    if (answer == 0 && AtomicWords.loadAcquire(data, Exposure.OFFER) != 0) {
      decide();
    }
  }

  private void decide() {
    String obstacle = null;
    String unmapped = null;
    if (sizes.inProcess() != SingleCopy.NEVER) {
      exposed = inThisProcess();
      answer = exposed == null ? 0 : Exposure.IN_PROCESS;
    }
    if (answer == 0 && sizes.mapped() != SingleCopy.NEVER) {
      unmapped = obstacleToMappings();
      if (unmapped == null) {
        segments = new PeerSegments(offered(Exposure.PROCESS), data.device());
      }
    }
    if (answer == 0 && sizes.betweenProcesses() != SingleCopy.NEVER) {
      obstacle = obstacleBetweenProcesses();
      answer = obstacle == null ? Exposure.BETWEEN_PROCESSES : 0;
    }
    if (answer == 0) {
      answer = Exposure.BY_SLOTS;
    }
    AtomicWords.storeRelease(credit, Exposure.READER, ThisProcess.pid());
    AtomicWords.storeRelease(
        credit, Exposure.ANSWER, Exposure.answer(answer, least, segments != null));
    if (LOG.isLoggable(sizes.level())) {
      LOG.log(sizes.level(), "{0}", text(obstacle) + ofMappings(unmapped));
    }
  }

  private String ofMappings(String obstacle) {
    if (segments != null) {
      return "; memory that the device allocated is mapped, from "
          + sizes.mapped()
          + " bytes a step on";
    }
    return obstacle == null ? "" : "; memory that the device allocated is not mapped: " + obstacle;
  }

  private String text(String obstacle) {
    if (answer == Exposure.IN_PROCESS) {
      return ranks
          + " in the same process: from "
          + sizes.inProcess()
          + " bytes a step on, data are read from the sender's buffer";
    }
    if (answer == Exposure.BETWEEN_PROCESSES) {
      return ranks
          + " in another process: from "
          + least
          + " bytes a step on, data are read from the sender's buffer by process_vm_readv"
          + (isMeasured() ? "; " + copyTimes() : "");
    }
    return ranks + ": data go through slots" + (obstacle == null ? "" : "; " + obstacle);
  }

  private long offered(long word) {
    return AtomicWords.loadAcquire(data, word);
  }

  /** Buffers that the sender exposes, if it is in this process; null if it is not. */
  private HostMemory[] inThisProcess() {
    boolean here =
        offered(Exposure.PATTERN_ADDRESS) == ExposedMemory.patternAddress()
            && offered(Exposure.PATTERN) == ExposedMemory.pattern(0)
            && offered(Exposure.PATTERN + Long.BYTES) == ExposedMemory.pattern(1);
    return here ? ExposedMemory.find(offered(Exposure.OFFER)) : null;
  }

  /**
   * Looks for the sender's pattern in the segment that it names. The reason why that does not work,
   * or null.
   */
  private String obstacleToMappings() {
    long descriptor = offered(Exposure.DESCRIPTOR) - 1;
    if (descriptor < 0) {
      return "process %d shares none, and its log has the reason"
          .formatted(offered(Exposure.PROCESS));
    }
    try (MappedRegion region =
        SharedSegment.attachOf(
            offered(Exposure.PROCESS), (int) descriptor, ExposedMemory.PATTERN_SEGMENT_BYTES)) {
      boolean same =
          NativeMemory.getLong(region.address()) == offered(Exposure.PATTERN)
              && NativeMemory.getLong(region.address() + Long.BYTES)
                  == offered(Exposure.PATTERN + Long.BYTES);
      return same ? null : "process %d is another one here".formatted(offered(Exposure.PROCESS));
    } catch (NcclException e) {
      return e.getMessage();
    }
  }

  /** Reads the sender's pattern from its process. The reason why that does not work, or null. */
  private String obstacleBetweenProcesses() {
    long pid = offered(Exposure.PROCESS);
    ProcessMemory sender = new ProcessMemory(pid);
    ByteBuffer seen = ByteBuffer.allocateDirect(2 * Long.BYTES).order(ByteOrder.nativeOrder());
    int error =
        sender.read(offered(Exposure.PATTERN_ADDRESS), HostMemory.addressOf(seen), 2 * Long.BYTES);
    if (error != 0) {
      return "process_vm_readv from process %d fails with errno %d".formatted(pid, error);
    }
    if (seen.getLong(0) != offered(Exposure.PATTERN)
        || seen.getLong(Long.BYTES) != offered(Exposure.PATTERN + Long.BYTES)) {
      return "process %d is another one here than the sender's".formatted(pid);
    }
    least = isMeasured() ? copyTimes().leastBytes() : sizes.betweenProcesses();
    if (least == SingleCopy.NEVER) {
      return copyTimes().toString();
    }
    process = sender;
    return null;
  }

  private CopyTimes copyTimes() {
    return ProcessCopyProbe.times(sizes.times());
  }

  private boolean isMeasured() {
    return sizes.betweenProcesses() == SingleCopy.MEASURED;
  }

  /** True if the data of a step that is there are exposed. */
  @HotPath
  boolean isExposed(long step) {
    long size = ConnectionLayout.size(step);
    return data.window(size).getInt(data.index(size)) < 0;
  }

  /** Tells the sender that a step is being read; false if the sender has revoked it. */
  @HotPath
  boolean begin(long step) {
    AtomicWords.storeRelease(credit, Exposure.READING, step + 1);
    reading = true;
    VarHandle.fullFence();
    return !isRevoked();
  }

  /** True once the sender has failed. */
  @HotPath
  boolean isRevoked() {
    return AtomicWords.loadAcquire(data, Exposure.REVOKED) != 0;
  }

  /** The step was read; the head says so too. */
  @HotPath
  void end() {
    reading = false;
  }

  /** After a failure: nothing is being read any more. */
  void abandon() {
    if (reading) {
      reading = false;
      AtomicWords.storeRelease(credit, Exposure.READING, 0);
    }
  }

  /**
   * The source or the target of an exposed step in memory of this process, or a mapping of it; null
   * if it is another process's that is not mapped.
   */
  @HotPath
  HostMemory memory(long step, int which, SpinWait waiter, int peer) {
    if (exposed != null) {
      return exposed[Exposure.index(step, which)];
    }
    if (segments == null) {
      return null;
    }
    long at = layout.simple(step) + which * Exposure.PLACE_BYTES;
    ByteBuffer words = data.window(at);
    int index = data.index(at);
    long segment = words.getLong(index + Exposure.SEGMENT);
    if (segment == 0) {
      return null;
    }
    HostMemory mapped = segments.find(segment);
    return mapped != null
        ? mapped
        : map(
            segment,
            (int) words.getLong(index + Exposure.SEGMENT_DESCRIPTOR),
            words.getLong(index + Exposure.SEGMENT_BYTES),
            waiter,
            peer);
  }

  private HostMemory map(long segment, int descriptor, long bytes, SpinWait waiter, int peer) {
    try {
      return segments.map(segment, descriptor, bytes);
    } catch (SystemErrorException e) {
      if (!segments.ownerLives() || isRevoked()) {
        waiter.awaitFailure(peer);
      }
      throw new SystemErrorException(
          ErrorId.SHARED_MEMORY,
          ranks + ": the sender's buffer cannot be mapped: " + e.problem(),
          "raise the limits of this process (ulimit -n, ulimit -v), or set"
              + " NCCL4J_SINGLE_COPY=threads",
          e);
    }
  }

  /** Unmaps the sender's segments; nothing is read any more. */
  void close() {
    if (segments != null) {
      segments.close();
    }
  }

  /** The offset of an exposed step in its memory, or its address in the sender's process. */
  @HotPath
  long place(long step, int which) {
    long at = layout.simple(step) + which * Exposure.PLACE_BYTES;
    return data.window(at).getLong(data.index(at));
  }

  /** Reads exposed data of another process. */
  @HotPath
  void fetch(long from, long to, int bytes, SpinWait waiter, int peer) {
    int error = process.read(from, to, bytes);
    if (error != 0) {
      fail(error, bytes, waiter, peer);
    }
  }

  /** A sender that has failed is heard of in another way, with the reason. */
  private void fail(int error, int bytes, SpinWait waiter, int peer) {
    if (error == ProcessMemory.ESRCH || isRevoked()) {
      waiter.awaitFailure(peer);
    }
    throw new SystemErrorException(
        ErrorId.SHARED_MEMORY,
        "%s: process_vm_readv of %d bytes of the sender's buffer fails with errno %d"
            .formatted(ranks, bytes, error),
        "set NCCL4J_SINGLE_COPY=threads, or use memory that the kernel can read");
  }
}
