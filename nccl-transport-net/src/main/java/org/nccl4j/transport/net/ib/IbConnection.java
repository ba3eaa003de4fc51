package org.nccl4j.transport.net.ib;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.ib.device.CompletionQueue;
import org.nccl4j.transport.net.ib.device.IbPort;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.device.OpenDevice;
import org.nccl4j.transport.net.ib.device.RegistrationCache;

/** The common part of both ends of a connection. Owned by one thread at a time. */
abstract class IbConnection implements NetConnection, OpenConnections.Part {
  private static final int IDLE_POLLS_BETWEEN_LOOKS = 32;
  private static final long LOOK_NANOS = 1_000_000;
  private static final long GRACE_NANOS = 200_000_000;

  /** Settings of the connection. */
  final IbSettings settings;

  final LocalQpInfo local;
  final OpenDevice device;
  final CompletionQueue queue;
  final QueuePair[] pairs;

  private long[] handles;
  private final List<IbMemory> memories = new ArrayList<>();
  private ControlConnection link;
  private RemoteQpInfo remote;
  private NcclException broken;
  private final long patienceNanos;
  private int idlePolls;
  private long lookedAt;
  private long overSince;
  private boolean smallOnesArrived;
  private boolean closed;

  /** Opens the device and makes so many queue pairs, each for so many sends and receives. */
  IbConnection(
      IbSettings settings, LocalQpInfo local, int pairs, int sends, int receives, int entries) {
    this.settings = settings;
    this.local = local;
    this.pairs = new QueuePair[pairs];
    patienceNanos = (long) (settings.patienceSeconds() * 1e9);
    device = OpenDevice.of(settings, local.port().device());
    CompletionQueue made = null;
    boolean complete = false;
    try {
      made = new CompletionQueue(device, entries);
      for (int i = 0; i < pairs; i++) {
        this.pairs[i] = new QueuePair(device, made, sends, receives);
      }
      complete = true;
    } finally {
      if (!complete) {
        closePairs();
        if (made != null) {
          made.close();
        }
        device.close();
      }
    }
    queue = made;
    handles = new long[pairs + 1];
    handles[pairs] = made.handle();
    for (int i = 0; i < pairs; i++) {
      handles[i] = this.pairs[i].handle();
    }
  }

  /** Has what is reported of one more queue pair count as this connection's, until it closes. */
  final void watch(QueuePair another) {
    handles = Arrays.copyOf(handles, handles.length + 1);
    handles[handles.length - 1] = another.handle();
  }

  /** Returns the information that this end sends to the other. */
  final RemoteQpInfo describe(int rank, boolean split, long memory, int remoteKey) {
    int[] numbers = new int[pairs.length];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = pairs[i].number();
    }
    return new RemoteQpInfo(
        rank,
        local.port().lid(),
        local.port().mtu(),
        split,
        local.port().ethernet(),
        local.gid().address(),
        memory,
        remoteKey,
        local.port().name(),
        numbers);
  }

  /** Connects the queue pairs to the other end's. */
  final void connectPairs(ControlConnection over, RemoteQpInfo other) {
    link = over;
    remote = other;
    if (other.queuePairs().length != pairs.length) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "%s has %d queue pairs for a connection of %d"
              .formatted(other.describe(), other.queuePairs().length, pairs.length),
          "run the same version of nccl4j on all ranks");
    }
    for (int i = 0; i < pairs.length; i++) {
      pairs[i].connect(settings, local, other, other.queuePairs()[i]);
    }
  }

  final RemoteQpInfo remote() {
    return remote;
  }

  /** Takes the completions. A waiting thread calls it over and over. */
  @HotPath
  final void progress() {
    if (broken != null) {
      throw broken.again();
    }
    int count = queue.poll();
    for (int i = 0; i < count; i++) {
      if (queue.status(i) != WC_SUCCESS) {
        throw fail(failure(queue.status(i), queue.vendorError(i), queue.id(i)));
      }
      completed(queue.opcode(i), queue.id(i), queue.immediate(i));
    }
    if (count > 0) {
      idlePolls = 0;
      overSince = 0;
      smallOnesArrived = true;
    } else if (++idlePolls >= IDLE_POLLS_BETWEEN_LOOKS) {
      idlePolls = 0;
      look(System.nanoTime());
    }
  }

  /** Something ended well. */
  abstract void completed(int opcode, long id, int immediate);

  /** Most bytes among the transfers under way: for the message about one that failed. */
  abstract int largestUnderWay();

  /** Looks, about once a millisecond, for what no completion tells. */
  private void look(long now) {
    if (now - lookedAt < LOOK_NANOS) {
      return;
    }
    lookedAt = now;
    try {
      device.events().check(handles, local.port().port(), patienceNanos);
    } catch (NcclException e) {
      throw fail(e);
    }
    if (overSince == 0) {
      // Data that the other end sent before it closed may still be on the way.
      overSince = link.isOver() ? now : 0;
    } else if (now - overSince > GRACE_NANOS) {
      throw fail(
          new RemoteException(
              ErrorId.CONNECTION,
              "%s has closed its InfiniBand connection to %s, or died"
                  .formatted(remote.describe(), local.port().name()),
              "see that rank's first error"));
    }
  }

  private NcclException fail(NcclException error) {
    broken = error;
    return error;
  }

  private NcclException failure(int status, int vendorError, long id) {
    String name = device.verbs().statusName(status);
    String trouble = device.events().trouble();
    int mtu = IbPort.mtuBytes(Math.min(local.port().mtu(), remote.mtu()));
    String problem =
        "InfiniBand: a transfer between %s (GID %s) and %s failed: %s (status %d, vendor %d)%s"
            .formatted(
                local.port().name(),
                local.gid(),
                remote.describe(),
                name,
                status,
                vendorError,
                trouble.isEmpty() ? "" : "; before that, " + trouble);
    return new RemoteException(ErrorId.CONNECTION, problem, remedy(status, mtu));
  }

  private String remedy(int status, int mtu) {
    return switch (status) {
      case WC_RETRY_EXC_ERR ->
          (smallOnesArrived && largestUnderWay() > 256
                  ? "small packets arrived before, so suspect the MTU: packets of %d bytes have to"
                          .formatted(mtu)
                      + " pass every switch on the way; set the interfaces of both hosts to what"
                      + " the"
                      + " network takes (ip link set mtu), ports are at %d and %d bytes. Else see"
                          .formatted(
                              IbPort.mtuBytes(local.port().mtu()), IbPort.mtuBytes(remote.mtu()))
                  : "see")
              + " that the other rank is alive, that the two GIDs reach each other (ping), and that"
              + " UDP port 4791 is open for RoCE; raise NCCL_IB_TIMEOUT or NCCL_IB_RETRY_CNT on a"
              + " lossy network (now given up after %.1f s)".formatted(settings.patienceSeconds());
      case WC_REM_ACCESS_ERR, WC_REM_OP_ERR ->
          "the other rank freed or closed the memory of a receive; see its first error";
      case WC_WR_FLUSH_ERR -> "see the first error of this connection";
      default -> "see the kernel's log (dmesg) for the adapter";
    };
  }

  @Override
  public final NetMemory register(DeviceMemory memory) {
    checkOpen();
    return keep(memory, device.cache().register(memory.address(), memory.size()));
  }

  @Override
  public final NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
    checkOpen();
    if (fd < 0 || offset < 0) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "dma-buf %d with offset %d cannot be registered".formatted(fd, offset),
          "pass an open dma-buf and where the memory begins in it");
    }
    return keep(memory, device.cache().registerDmaBuf(fd, offset, memory.size(), memory.address()));
  }

  private IbMemory keep(DeviceMemory memory, RegistrationCache.Region region) {
    IbMemory made = new IbMemory(memory, region);
    memories.removeIf(IbMemory::isClosed);
    memories.add(made);
    return made;
  }

  /** The memory of a message, which has to be one of this device's and to hold it. */
  @HotPath
  static IbMemory checked(NetMemory memory, long offset, int bytes) {
    if (!(memory instanceof IbMemory)) {
      throw notRegistered();
    }
    IbMemory own = (IbMemory) memory;
    if (own.isClosed() || offset < 0 || bytes < 0 || offset > own.memory().size() - bytes) {
      throw outside(own, offset, bytes);
    }
    return own;
  }

  private static InvalidUsageException notRegistered() {
    return new InvalidUsageException(
        ErrorId.HANDLE,
        "a message is in memory that is not registered with its InfiniBand connection",
        "register the memory with this connection first");
  }

  private static InvalidArgumentException outside(IbMemory memory, long offset, int bytes) {
    return new InvalidArgumentException(
        ErrorId.BUFFER,
        "a message of %d bytes at %d is not in the registered memory (%s)"
            .formatted(bytes, offset, memory.isClosed() ? "closed" : memory.memory()),
        "pass a part of memory whose registration is open");
  }

  @Override
  public final boolean isClosed() {
    return closed;
  }

  final void checkOpen() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "an InfiniBand connection is used after close",
          "close connections after their last use");
    }
  }

  private void closePairs() {
    for (QueuePair pair : pairs) {
      if (pair != null) {
        pair.close();
      }
    }
  }

  /** True if the other end need not mind that this one closes. */
  abstract boolean endsInOrder();

  /** Frees what the subclass has. */
  abstract void closeOwn();

  @Override
  public final void close() {
    if (closed) {
      return;
    }
    closed = true;
    if (link != null && broken == null && endsInOrder()) {
      link.sayGoodbye();
    }
    closePairs();
    closeOwn();
    queue.close();
    memories.forEach(IbMemory::close);
    for (long handle : handles) {
      device.events().forget(handle);
    }
    device.close();
    if (link != null) {
      link.close();
    }
  }
}
