package org.nccl4j.api.window;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.nccl4j.api.bootstrap.CallOrder;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.RmaSpace;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.device.support.Patience;
import org.nccl4j.device.symmetric.ShareableMemory;
import org.nccl4j.device.symmetric.SymmetricDevice;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.device.symmetric.WindowView;

/**
 * The windows of one communicator on one rank. Registering and dropping are collective: all ranks
 * call them in the same order; any thread may, one at a time. {@link #find} is for any thread.
 */
public final class WindowRegistry implements AutoCloseable {
  /** Time that a close waits for a thread that covers windows. */
  private static final Duration LONGEST_COVER = Duration.ofSeconds(5);

  private static final System.Logger LOG = DebugLog.of("INIT");

  /** Why windows are kept where {@link #end} is false. */
  public static final String IN_USE =
      "a proxy thread still writes into them, or a thread makes NVLS of them";

  /** The operations that find a window by the address of a buffer. */
  private enum Use {
    /** None: it is the library's own. */
    NONE,
    /** Puts, sends and receives. */
    ONE_SIDED,
    /** Collectives as well. */
    COLLECTIVES
  }

  private final WindowSetup setup;
  private final LsaTeam team;
  private final boolean apart;
  private final SymmetricDevice device;
  private final RegistrationProtocol agreement;
  private final Mapper mapper;
  private final MappedMemories mapped;
  private final Consumer<SymmetricSpace> onSpace;
  private final Registrations registrations;
  private final WindowTable table = new WindowTable();
  private final LateMulticastBinding late;
  private final ReleasedWindows givenUp = new ReleasedWindows();
  private volatile DeviceMemory resources;
  private volatile boolean covered;
  private final List<DeviceMemory> ofLibrary = new ArrayList<>();
  private long windows;

  /** The next number of those that are not users': 0, -1 and so on. */
  private long ofLibraryEver;

  private boolean closed;

  /**
   * No windows yet; nothing is allocated or reserved before the first.
   *
   * @param onSpace receives the team's space once, before the first window is returned
   */
  public WindowRegistry(WindowSetup setup, Consumer<SymmetricSpace> onSpace) {
    this.setup = setup;
    this.team = setup.team();
    this.apart = team.isApart(setup.peers());
    this.device = (SymmetricDevice) setup.device();
    this.agreement = new RegistrationProtocol(setup);
    this.mapper = new Mapper(setup, team);
    this.mapped = new MappedMemories(setup, team, agreement, mapper);
    this.late = new LateMulticastBinding(table, mapped.covering());
    this.onSpace = onSpace;
    this.registrations = new Registrations(this, setup.name(), setup.rank());
  }

  /** The device whose memory is registered. */
  public Device device() {
    return setup.device();
  }

  /** All ranks of the communicator. */
  public int nRanks() {
    return setup.peers().size();
  }

  /** The ranks that reach each other's windows. */
  public LsaTeam team() {
    return team;
  }

  /**
   * A rank of the team on whose memory atomic operations of this rank's GPU may get lost, as over
   * PCIe; empty where there is none, as far as is known.
   */
  public OptionalInt withoutAtomics() {
    PeerInfo own = setup.peers().get(setup.rank());
    KernelDevice gpu = (KernelDevice) setup.device();
    return own.deviceKind() == Device.Kind.HOST
        ? OptionalInt.empty()
        : team.ranks().stream()
            .map(setup.peers()::get)
            .filter(peer -> !own.sharesFabric(peer) && !gpu.nvlink(peer.deviceId()).orElse(true))
            .mapToInt(PeerInfo::rank)
            .findFirst();
  }

  /** The others, as far as puts reach them. */
  public RemotePeers remote() {
    return setup.remote();
  }

  /** A window that holds all of a range of addresses of this rank, or null. */
  @HotPath
  public RegisteredWindow find(long address, long bytes) {
    return table.find(address, bytes, /* forCollectives= */ false);
  }

  /** The same among windows that collectives use. */
  @HotPath
  public RegisteredWindow findForCollectives(long address, long bytes) {
    return table.find(address, bytes, /* forCollectives= */ true);
  }

  /** True if a window is registered here and now. */
  public boolean has(RegisteredWindow window) {
    return table.has(window);
  }

  /** The order of this rank's calls that exchange with the other ranks. */
  CallOrder calls() {
    return setup.bootstrap().calls();
  }

  /** Returns the windows that ranks register without each other. */
  public Registrations registrations() {
    return registrations;
  }

  /** Returns the reason why a memory does not fit a call, or null. */
  NcclException unfit(String call, DeviceMemory memory) {
    return WindowChecks.of(call, setup, memory);
  }

  /** True if there is a space for windows: whether there ever was one. */
  public boolean hasSpace() {
    return resources != null;
  }

  /**
   * True if the library's own window, and so any that is large enough, is reached by one access.
   */
  public boolean isCovered() {
    return covered;
  }

  /** True if one access may reach windows of users, now or later. */
  public boolean mayBeCovered() {
    return mapped.covering().isPossible();
  }

  /**
   * Has the memory of all users' windows reached by one access, in step with all other ranks. The
   * library's own window stays as it is, since kernels have it.
   */
  public void cover(Exchange exchange) {
    if (mayBeCovered()) {
      late.run(exchange);
    }
  }

  /** Bytes of the library's own window on this rank. */
  public long memoryBytes() {
    DeviceMemory own = resources;
    return own == null ? 0 : own.size();
  }

  /** True if there are none. */
  @HotPath
  public boolean isEmpty() {
    return table.isEmpty();
  }

  /** True if there is nothing but the library's own space, if that. */
  public synchronized boolean isUnused() {
    return table.isEmpty() && ofLibrary.isEmpty() && registrations.isEmpty();
  }

  /**
   * Registers a memory together with all other ranks.
   *
   * @throws NcclException the same on all ranks, naming the one whose memory is not fit and why;
   *     then nothing is registered on any
   */
  public RegisteredWindow register(DeviceMemory memory) {
    return register(memory, /* forCollectives= */ true);
  }

  /**
   * Registers a memory as {@link #register(DeviceMemory)} does.
   *
   * @param forCollectives whether collectives may use it: they do if all ranks say so
   */
  public synchronized RegisteredWindow register(DeviceMemory memory, boolean forCollectives) {
    makeSpace();
    setup.remote().open(table);
    return register(
        memory, null, forCollectives ? Use.COLLECTIVES : Use.ONE_SIDED, null, List.of());
  }

  /**
   * Registers memory for an operation, if its buffers begin at the same places on all ranks.
   *
   * @param memory null on a rank whose buffer is not registered: then all throw
   */
  synchronized RegisteredWindow register(DeviceMemory memory, List<Long> places) {
    makeSpace();
    setup.remote().open(table);
    return register(memory, null, Use.COLLECTIVES, null, places);
  }

  /**
   * Registers memory that kernels write into, which operations do not find. Collective; the memory
   * is closed with this registry, or by {@link #releaseForKernels}.
   *
   * @param asked requirements of the device communicator, the same on all ranks; null for others
   * @param lack why there is no memory, which is reported to all ranks; else null
   */
  synchronized RegisteredWindow registerForKernels(
      DeviceCommRequirements asked, DeviceMemory memory, NcclException lack) {
    makeSpace();
    RegisteredWindow window = register(memory, lack, Use.NONE, asked, List.of());
    ofLibrary.add(memory);
    return window;
  }

  /**
   * Gives such memory up on this rank alone. It stays mapped until all ranks have given it up and
   * register another.
   */
  synchronized void releaseForKernels(RegisteredWindow window, DeviceMemory memory) {
    giveUp(window, /* unmaps= */ false);
    if (ofLibrary.remove(memory)) {
      memory.close();
    }
  }

  /**
   * Makes the ring of puts of a device communicator's kernels to ranks outside the team.
   * Collective.
   *
   * @throws NcclException on all ranks, if they cannot be reached
   */
  public synchronized RmaSpace.KernelRing kernelRing(int signals) {
    return setup.remote().kernelRing(table, signals);
  }

  /** Bytes from one rank's stretch of the flat range to the next. */
  public synchronized long stride() {
    return mapped.range().stride();
  }

  /** Makes the flat range and the library's own window, before anybody's first. */
  public synchronized void makeSpace() {
    checkOpen();
    if (resources != null) {
      return;
    }
    DeviceMemory own = null;
    NcclException lack = null;
    try {
      own = setup.device().memAlloc(device.resourceBytes(team.size()));
    } catch (NcclException e) {
      lack = e;
    }
    try {
      RegisteredWindow window = register(own, lack, Use.NONE, null, List.of());
      resources = own;
      covered = window.view().multicast() != null;
      onSpace.accept(
          new SymmetricSpace(
              team.first(),
              team.size(),
              team.place(),
              window.view(),
              mapped.range().address(),
              mapped.range().stride()));
      tellSmallness();
    } finally {
      if (resources == null && own != null) {
        own.close();
      }
    }
  }

  /** Tells, on rank 0, why ranks reach the windows of fewer ranks than they could. */
  private void tellSmallness() {
    if (setup.rank() == 0) {
      LsaTeam.smallness(setup.peers(), setup.unreached())
          .ifPresent(
              why -> LOG.log(setup.level(), "windows of communicator {0} {1}", setup.name(), why));
    }
  }

  /**
   * Registers a memory, or tells the others why not.
   *
   * @param lack why there is no memory, else null
   * @param asked for a device communicator, else null
   * @param places of an operation's buffers, if it is for one
   */
  private RegisteredWindow register(
      DeviceMemory memory,
      NcclException lack,
      Use use,
      DeviceCommRequirements asked,
      List<Long> places) {
    boolean users = use != Use.NONE;
    NcclException wrong = lack != null ? lack : unfit("registerWindow", memory);
    RegistrationRequest candidate = RegistrationRequest.of(setup, mapper, apart, memory, wrong);
    ShareableMemory own = candidate.own();
    HandleOffer offer = candidate.offer();
    try (candidate) {
      long stride = setup.stride() > 0 ? setup.stride() : device.stride(team.size());
      List<RegistrationMessage> all =
          agreement.reach(
              new RegistrationMessage(
                  step(users, asked),
                  candidate.unfit(),
                  asked == null ? windows + 1 : asked.packed(),
                  own == null ? 0 : mapped.number(own),
                  own == null ? 0 : own.size(),
                  own == null ? 0 : memory.address() - own.address(),
                  memory == null ? 0 : memory.size(),
                  stride,
                  offer.mailbox(),
                  use == Use.COLLECTIVES,
                  places,
                  mapped.covering().isMade(),
                  givenUp.numbers(),
                  List.of()));
      synchronized (late) {
        givenUp.byAll(all).forEach(each -> mapped.release(each.mapped()));
        agreement.checkAlike(all);
        SymmetricMemory of = mapped.obtain(all, own, offer);
        of.retain();
        long number = users ? ++windows : ofLibraryEver--;
        boolean covers = RegistrationMessage.allHaveMulticast(all);
        boolean forCollectives = all.stream().allMatch(RegistrationMessage::forCollectives);
        RegisteredWindow window = window(number, of, memory, own, covers, forCollectives);
        if (users) {
          late.add(window, covers);
        }
        return window;
      }
    } catch (RuntimeException e) {
      if (own != null && !mapped.has(own)) {
        own.release();
      }
      throw e;
    }
  }

  private static RegistrationMessage.Step step(boolean users, DeviceCommRequirements asked) {
    return asked != null
        ? RegistrationMessage.Step.DEVICE_COMMUNICATOR
        : users ? RegistrationMessage.Step.REGISTER : RegistrationMessage.Step.SPACE;
  }

  /**
   * A window in mapped memory.
   *
   * @param covers whether all ranks can reach it by multicast: one rank may have covered the memory
   *     already, and another not yet
   */
  private static RegisteredWindow window(
      long number,
      SymmetricMemory of,
      DeviceMemory memory,
      ShareableMemory own,
      boolean covers,
      boolean forCollectives) {
    List<DeviceMemory> peers = new ArrayList<>();
    long offset = memory.address() - own.address();
    for (DeviceMemory view : of.views) {
      peers.add(view.slice(offset, memory.size()));
    }
    WindowView view =
        new WindowView(
            number,
            memory.address(),
            List.copyOf(peers),
            covers ? of.multicast(offset, memory.size()) : null);
    return new RegisteredWindow(view, of, offset, memory, forCollectives);
  }

  /**
   * Drops a window together with all other ranks.
   *
   * @param used whether operations of this rank that use a window have not ended
   * @throws InvalidUsageException if it was dropped before; on all ranks, if it is in use on any:
   *     then it stays
   */
  public synchronized void deregister(RegisteredWindow window, Predicate<RegisteredWindow> used) {
    checkRegistered(window);
    InvalidUsageException inUse = inUse(window, used);
    List<RegistrationMessage> all =
        agreement.reach(
            RegistrationMessage.outcome(RegistrationMessage.Step.DEREGISTER, window.number(), inUse)
                .with(setup.remote().sent()));
    agreement.checkWindow(all);
    if (!all.get(setup.rank()).sent().isEmpty()) {
      setup.remote().awaitArrived(all.stream().map(p -> p.sent().get(setup.rank())).toList());
    }
    drop(window);
    mapped.leave(window.mapped(), /* unmaps= */ false);
    mapped.release(window.mapped());
  }

  /** Nobody finds a window any more, and no thread of the making of NVLS covers it. */
  private void drop(RegisteredWindow window) {
    window.drop();
    late.remove(window);
    Duration left = Duration.ofNanos(setup.bootstrap().exchangeEnd() - System.nanoTime());
    if (!late.awaitEnd(window::equals, left)) {
      throw new TimeoutException(
          ErrorId.STILL_RUNNING,
          "rank %d of communicator %s still binds window %d to a multicast object of NVLS %s after it"
                  .formatted(setup.rank(), setup.name(), window.number(), Patience.text(left))
              + " was deregistered",
          "look at the logs of all ranks, or set NCCL_NVLS_ENABLE=0");
    }
  }

  private void checkRegistered(RegisteredWindow window) {
    checkOpen();
    if (window.isDropped()) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          "rank %d deregisters window %d of communicator %s twice"
              .formatted(setup.rank(), window.number(), setup.name()),
          "deregister each window once");
    }
  }

  /** The error of dropping a window that operations of this rank use; null if none do. */
  private InvalidUsageException inUse(RegisteredWindow window, Predicate<RegisteredWindow> used) {
    if (!used.test(window)) {
      return null;
    }
    return new InvalidUsageException(
        ErrorId.HANDLE,
        "window %d of communicator %s is deregistered while operations of rank %d use it"
            .formatted(window.number(), setup.name(), setup.rank()),
        "synchronize the streams of its operations first");
  }

  /**
   * Drops a window on this rank alone, which waits for no other. Its memory is free once all ranks
   * have done so.
   *
   * @param used whether operations of this rank that use a window have not ended
   * @param again whether operations may run again without a call, in graphs: then the memory stays
   *     until all ranks register another window
   * @throws InvalidUsageException if it was dropped before, or is in use: then it stays
   */
  public synchronized void release(
      RegisteredWindow window, Predicate<RegisteredWindow> used, boolean again) {
    checkRegistered(window);
    InvalidUsageException inUse = inUse(window, used);
    if (inUse != null) {
      throw inUse;
    }
    giveUp(window, !again);
  }

  /**
   * This rank has no more use for a window. What is not unmapped now is once all ranks have given
   * the window up and register another.
   *
   * @param unmaps whether no kernel of this rank runs on it, now or later
   */
  synchronized void giveUp(RegisteredWindow window, boolean unmaps) {
    if (!closed) {
      drop(window);
      mapped.leave(window.mapped(), unmaps);
      givenUp.add(window);
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "communicator %s is closed on rank %d".formatted(setup.name(), setup.rank()),
          "register and deregister windows before close");
    }
  }

  /**
   * From now on nothing that ranks outside the team put is written into windows.
   *
   * @return false if a thread still writes, or still makes NVLS of windows, so that they may not be
   *     closed
   */
  public boolean end() {
    return setup.remote().end() && late.awaitEnd(window -> true, LONGEST_COVER);
  }

  /**
   * Unmaps all windows on this rank, where nothing may be running, after {@link #end}. Multicast
   * memory stays until all ranks have closed their windows, and is closed with its provider.
   */
  @Override
  public void close() {
    CloseAll all = new CloseAll();
    all.take(registrations::close);
    all.take(this::unmap);
    all.end();
  }

  /**
   * Ends what other ranks put and unmaps all windows, where a creation has failed. Keeps them if a
   * thread still writes into them.
   */
  public void discard() {
    if (end()) {
      close();
    } else {
      KeptMemory.keep(
          this,
          "windows of communicator %s, rank %d,".formatted(setup.name(), setup.rank()),
          memoryBytes(),
          IN_USE);
    }
  }

  private synchronized void unmap() {
    if (!closed) {
      closed = true;
      for (RegisteredWindow window : table.all()) {
        window.drop();
        table.remove(window);
      }
      CloseAll all = new CloseAll();
      all.take(mapped::close);
      if (resources != null) {
        all.take(resources::close);
      }
      ofLibrary.forEach(memory -> all.take(memory::close));
      all.end();
    }
  }
}
