package org.nccl4j.transport.p2p;

import java.lang.System.Logger;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.wire.FdExchange;
import org.nccl4j.api.wire.TeardownBarrier;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.memory.CudaIpcMemory;
import org.nccl4j.device.cuda.memory.CudaShareableMemory;
import org.nccl4j.device.cuda.memory.SharedDeviceMemory;
import org.nccl4j.device.shm.OwnedFd;
import org.nccl4j.device.support.CloseAll;

/**
 * Arenas of GPUs: with a peer of this process by a number that is looked up, with one of the same
 * clique by a fabric handle, with another of this host by a file descriptor that each passes the
 * other once. Where a driver cannot share memory by descriptor, what a peer gets is a handle of
 * CUDA IPC; ranks of both kinds go together.
 */
final class CudaExchange implements ArenaExchange {
  private static final LocalArenas<SharedDeviceMemory> ARENAS =
      new LocalArenas<>(SharedDeviceMemory::close);

  private static final Logger LOG = DebugLog.of("P2P");
  private static final String DESCRIPTORS = GpuSettings.NCCL_CUMEM_ENABLE.name();
  private static final String BY_HANDLE = "ipc:";

  /**
   * Time that closing waits for other processes, where it does not keep other ranks from closing.
   */
  private static final Duration HERE = Duration.ofSeconds(2);

  /** Time after which memory is freed regardless of other ranks. */
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final PeerInfo self;
  private final CudaDevice device;
  private final long bytes;
  private final byte[] secret;
  private final Map<Integer, LocalArenas<SharedDeviceMemory>.Arena> found = new HashMap<>();
  private final boolean byHandle;
  private final boolean abroad;
  private final boolean alone;
  private final Map<Integer, SharedDeviceMemory> imported = new HashMap<>();
  private final Set<Integer> posted = new HashSet<>();

  /** Why memory of some ranks cannot be opened; told once they have this rank's. */
  private final Map<Integer, RemoteException> refused = new HashMap<>();

  private final Set<Integer> givesHandle = new HashSet<>(); // of CUDA IPC, not a descriptor
  private final Map<Integer, String> boxes = new HashMap<>();

  private final Set<Integer> expected = new HashSet<>();
  private LocalArenas<SharedDeviceMemory>.Arena own;
  private FdExchange descriptors;
  private String fabricAddress;

  CudaExchange(TransportContext context, CudaDevice device, long bytes) {
    this.self = context.peers().get(context.rank());
    this.device = device;
    this.bytes = bytes;
    this.secret = context.secret();
    this.byHandle = !context.get(GpuSettings.NCCL_CUMEM_ENABLE);
    this.abroad =
        context.peers().stream().anyMatch(peer -> !isLocal(peer) && !self.sharesFabric(peer));
    this.alone = context.peers().stream().filter(this::isLocal).count() == 1;
  }

  @Override
  public long own() {
    if (own == null) {
      own = ARENAS.create(allocate());
    }
    return own.memory().local().address();
  }

  private SharedDeviceMemory allocate() {
    if (!self.fabric().isEmpty()) {
      return CudaShareableMemory.create(device.gpu(), bytes); // has descriptors too
    }
    SharedDeviceMemory memory =
        byHandle
            ? CudaIpcMemory.create(device.gpu(), bytes)
            : SharedDeviceMemory.allocate(device.gpu(), bytes, abroad);
    if (memory instanceof CudaIpcMemory) {
      LOG.log(
          byHandle ? Logger.Level.INFO : Logger.Level.WARNING,
          "rank {0} shares its GPU''s memory by {1}, not by file descriptors, and has no windows:"
              + " {2}",
          self.rank(),
          abroad ? "CUDA IPC handles" : "peer access",
          byHandle ? DESCRIPTORS + "=0" : device.sharingAbsence().orElseThrow());
    }
    return memory;
  }

  @Override
  public void reserve(long offset, long length) {}

  private boolean isLocal(PeerInfo peer) {
    return peer.processId().equals(self.processId());
  }

  @Override
  public String address(PeerInfo peer) {
    if (isLocal(peer)) {
      return Long.toString(own.number());
    }
    if (self.sharesFabric(peer)) {
      if (fabricAddress == null) {
        fabricAddress = FabricAddress.of((CudaShareableMemory) own.memory());
      }
      return fabricAddress;
    }
    if (descriptors == null) {
      descriptors = FdExchange.open(secret);
    }
    if (expected.add(peer.rank())) {
      descriptors.expect(peer.rank());
    }
    return own.memory() instanceof CudaIpcMemory memory
        ? BY_HANDLE + HexFormat.of().formatHex(memory.handle()) + "@" + descriptors.path()
        : descriptors.path();
  }

  @Override
  public OptionalLong meet(PeerInfo peer, String address) {
    int other = peer.rank();
    if (isLocal(peer)) {
      LocalArenas<SharedDeviceMemory>.Arena arena =
          found.computeIfAbsent(other, rank -> find(rank, address));
      return OptionalLong.of(accessible(other, arena.memory()).address());
    }
    if (self.sharesFabric(peer)) {
      SharedDeviceMemory theirs =
          imported.computeIfAbsent(
              other, rank -> FabricAddress.open(device, rank, address, own.memory().size()));
      return OptionalLong.of(theirs.local().address());
    }
    boxes.put(other, address.substring(path(address)));
    if (address.startsWith(BY_HANDLE) && givesHandle.add(other)) {
      open(other, address.substring(BY_HANDLE.length(), path(address) - 1));
    }
    if (!posted.contains(other) && post(boxes.get(other))) {
      posted.add(other);
    }
    descriptors.take(other).ifPresent(received -> map(other, received.fd()));
    if (posted.contains(other) && refused.containsKey(other)) {
      throw refused.get(other);
    }
    SharedDeviceMemory arena = imported.get(other);
    return arena == null || !posted.contains(other)
        ? OptionalLong.empty()
        : OptionalLong.of(arena.local().address());
  }

  /** Returns the index of the path of a mailbox in an address. */
  private static int path(String address) {
    return address.startsWith(BY_HANDLE) ? address.indexOf('@') + 1 : 0;
  }

  private DeviceMemory accessible(int rank, SharedDeviceMemory memory) {
    try {
      return memory.accessFrom(device.gpu());
    } catch (CudaException e) {
      throw refusal("rank %d's memory cannot be accessed: %s".formatted(rank, e.problem()), e);
    }
  }

  private static RemoteException refusal(String problem, CudaException cause) {
    return new RemoteException(
        ErrorId.PEER_MEMORY,
        problem,
        "set NCCL_P2P_DISABLE=1 to go through memory of the host",
        cause);
  }

  private void open(int rank, String handle) {
    try {
      byte[] bytesOfHandle = HexFormat.of().parseHex(handle);
      imported.put(
          rank, CudaIpcMemory.importFrom(device.gpu(), bytesOfHandle, own.memory().size()));
    } catch (CudaException e) {
      refused.put(
          rank,
          new RemoteException(
              ErrorId.PEER_MEMORY,
              "rank %d's memory cannot be opened by its CUDA IPC handle: %s"
                  .formatted(rank, e.problem()),
              "in containers share the host's IPC namespace (--ipc=host), or set NCCL_P2P_DISABLE=1"
                  + " to go through memory of the host",
              e));
    } catch (IllegalArgumentException e) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d sent an invalid CUDA IPC handle: %s".formatted(rank, e.getMessage()),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  private static LocalArenas<SharedDeviceMemory>.Arena find(int rank, String address) {
    LocalArenas<SharedDeviceMemory>.Arena arena = ARENAS.find(address);
    if (arena == null) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "rank %d's arena %s is not in this process: it has closed its communicator"
              .formatted(rank, address),
          "look for an earlier error of that rank");
    }
    return arena;
  }

  private boolean post(String box) {
    if (!(own.memory() instanceof CudaShareableMemory memory)) {
      return true; // what the peer needs is in this rank's address
    }
    try (OwnedFd descriptor = new OwnedFd(memory.exportFileDescriptor())) {
      return descriptors.give(box, self.rank(), descriptor.value());
    }
  }

  private void map(int sender, int fd) {
    try (OwnedFd descriptor = new OwnedFd(fd)) {
      long size = own.memory().size(); // the same on all ranks, rounded up alike
      imported.put(sender, CudaShareableMemory.importFrom(device.gpu(), descriptor.value(), size));
    } catch (CudaException e) {
      refused.put(
          sender,
          refusal("rank %d's memory cannot be mapped: %s".formatted(sender, e.problem()), e));
    }
  }

  @Override
  public String missing(PeerInfo peer) {
    if (isLocal(peer) || self.sharesFabric(peer)) {
      return "its handle has not arrived"; // nor has a clique's, whose memory needs no answer
    }
    return "rank %d's arena has %s, this rank's has %s"
        .formatted(
            peer.rank(),
            imported.containsKey(peer.rank()) ? "come" : "not come",
            posted.contains(peer.rank()) ? "been sent" : "not been sent");
  }

  @Override
  public void close() {
    CloseAll all = new CloseAll();
    found.values().forEach(arena -> all.take(arena::release));
    found.clear();
    Map<Integer, String> owners = new HashMap<>(boxes);
    owners.keySet().retainAll(givesHandle);
    imported.values().forEach(memory -> all.take(memory::close));
    imported.clear();
    boolean opened = own != null && own.memory() instanceof CudaIpcMemory;
    LocalArenas<SharedDeviceMemory>.Arena last = own;
    if (descriptors != null && (opened || !owners.isEmpty())) {
      Map<Integer, String> users = opened ? boxes : Map.of();
      TeardownBarrier.pass(
          new CudaIpcTeardown(descriptors, self.rank(), owners, users, () -> release(last)),
          "nccl4j-ipc-close-" + self.rank(),
          alone ? HERE : Duration.ZERO,
          PATIENCE);
    } else {
      all.take(() -> release(last));
      if (descriptors != null) {
        all.take(descriptors::close);
      }
    }
    descriptors = null;
    own = null;
    all.end();
  }

  private static void release(LocalArenas<SharedDeviceMemory>.Arena arena) {
    if (arena != null) {
      arena.release();
    }
  }
}
