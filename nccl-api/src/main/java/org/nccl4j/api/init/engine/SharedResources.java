package org.nccl4j.api.init.engine;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.init.connect.RuntimeConnections;
import org.nccl4j.api.init.connect.TransportRoutes;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.observe.ProgressMonitor;
import org.nccl4j.api.observe.flight.Link;
import org.nccl4j.api.plan.trial.TrialChannel;
import org.nccl4j.api.proxy.ProxyThread;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.device.support.Patience;

/**
 * The resources that communicators with the same connections share: the first communicator, and all
 * splits of it without their own connections. The last one to close frees them. A failure of one is
 * a failure of all, because it leaves connections in the middle of a step. Memory that a kernel or
 * the proxy may still use is not freed. Any thread.
 */
public final class SharedResources implements ProgressMonitor.Connections {
  /** Time that a kernel may take to end, once its operation has ended. */
  private static final Duration SETTLED = Duration.ofSeconds(1);

  private final String name;
  private final Object job;
  private final Bootstrap bootstrap;
  private final KernelCommunicator kernels;
  private final List<TransportRoutes.NamedTransport> transports;
  private final List<Link> connected;

  /** Links that have been made since the creation; grows. */
  private final List<Link> madeLater;

  private final ProxyThread proxy;
  private final RuntimeConnections later;
  private final NvlsSetup nvls;
  private int users = 1;
  private boolean told;

  /** True if one has left while a kernel of it may have been running. Guarded by this. */
  private boolean kernelsStay;

  /** Numbers of the communicators that work by now. */
  private final Set<Long> working = new ConcurrentSkipListSet<>();

  /** Listeners for notices about trials. */
  private final List<Consumer<byte[]>> trials = new CopyOnWriteArrayList<>();

  /** Time from which on a trial may be proposed. */
  private final AtomicLong proposalNanos = new AtomicLong(System.nanoTime());

  /** True if the resources are freed. */
  private volatile boolean freed;

  /** The first failure that came after that; null if there was none. */
  private volatile NcclException late;

  /**
   * Creates the resources that a communicator has made for itself.
   *
   * @param request of the communicator
   * @param links what moves the data
   */
  public SharedResources(
      InitRequest request,
      Bootstrap bootstrap,
      KernelCommunicator kernels,
      Links links,
      NvlsSetup nvls) {
    this.name = request.name();
    this.job = request.job();
    this.bootstrap = bootstrap;
    this.kernels = kernels;
    this.transports = List.copyOf(links.transports);
    this.connected = List.copyOf(links.connected);
    this.madeLater = links.madeLater;
    this.proxy = links.proxy;
    this.later = links.later;
    this.nvls = nvls;
    bootstrap.onFailure(this::failedOutside);
    bootstrap.onNotice(this::heard);
    bootstrap.onAsked(question -> ProgressMonitor.answer(job, question));
    if (proxy != null) {
      proxy.onFailure(this::fail);
    }
  }

  /**
   * A communicator's means to move data.
   *
   * @param connected links that are connected
   * @param madeLater links that are made after the creation; grows
   * @param proxy not yet running; null where there is nothing to do for one
   * @param later makes connections when operations need them; not yet running; null where all are
   *     made
   */
  public record Links(
      List<TransportRoutes.NamedTransport> transports,
      List<Link> connected,
      List<Link> madeLater,
      ProxyThread proxy,
      RuntimeConnections later) {}

  /** Takes a notice of another rank. */
  private void heard(byte[] notice) {
    ProgressMonitor.heard(notice);
    trials.forEach(listener -> listener.accept(notice));
  }

  /** A channel for the trials of a communicator that uses the resources. */
  TrialChannel trialChannel() {
    return new TrialChannel() {
      private volatile Consumer<byte[]> listening;

      @Override
      public int nRanks() {
        return bootstrap.nRanks();
      }

      @Override
      public boolean mayPropose(long pauseNanos) {
        long now = System.nanoTime();
        long free = proposalNanos.get();
        return now - free >= 0 && proposalNanos.compareAndSet(free, now + pauseNanos);
      }

      @Override
      public void tell(byte[] notice) {
        SharedResources.this.tell(notice);
      }

      @Override
      public void listen(Consumer<byte[]> listener) {
        close();
        listening = listener;
        trials.add(listener);
      }

      @Override
      public void fail(NcclException cause) {
        SharedResources.this.fail(cause);
      }

      @Override
      public void close() {
        trials.remove(listening);
      }
    };
  }

  @Override
  public Object job() {
    return job;
  }

  /** The links that are connected by now. */
  List<Link> links() {
    if (madeLater.isEmpty()) {
      return connected;
    }
    List<Link> all = new ArrayList<>(connected);
    all.addAll(madeLater);
    return all;
  }

  /** Begins the proxy's work: the last step of the communicator's creation. */
  public void start() {
    if (proxy != null) {
      proxy.start();
    }
    if (later != null) {
      later.start(proxy, this::fail);
    }
    nvls.start(this::fail);
  }

  /** Work on the processor for the connections. */
  public Progress progress() {
    return proxy == null ? Progress.NONE : proxy;
  }

  /** Another rank's failure; guarded, since kernels that are freed cannot be aborted. */
  private synchronized void failedOutside(NcclException cause) {
    if (freed) {
      late = late == null ? cause : late;
    } else {
      kernels.abort(cause);
    }
  }

  /** The first failure of all that share, on this rank or another; null if there was none. */
  public NcclException failure() {
    NcclException first = kernels.failure();
    return first == null ? late : first;
  }

  /** A communicator begins to work by it, or ceases. */
  public void works(long communicator, boolean begins) {
    if (begins) {
      working.add(communicator);
    } else {
      working.remove(communicator);
    }
  }

  @Override
  public Set<Long> users() {
    return working;
  }

  @Override
  public void failed() {
    tell();
  }

  @Override
  public void tell(byte[] notice) {
    bootstrap.tellNotice(notice);
  }

  /** True if splits use it too. */
  public synchronized boolean isShared() {
    return users > 1;
  }

  /** True if the proxy has done what kernels have left. */
  public boolean isIdle() {
    return freed || proxy == null || proxy.isIdle() || kernels.failure() != null;
  }

  public KernelCommunicator kernels() {
    return kernels;
  }

  /** Ends all operations of all of them with an error, and tells the other ranks. */
  public void fail(NcclException cause) {
    CloseAll all = new CloseAll();
    all.take(() -> failedOutside(cause));
    all.take(this::tell);
    all.end();
  }

  /** Tells the other ranks of the failure that there was, once. */
  public void tell() {
    NcclException first = failure();
    synchronized (this) {
      if (told || first == null) {
        return;
      }
      told = true;
    }
    bootstrap.tellFailure(first);
  }

  /** One more; false if all were closed already. */
  public synchronized boolean join() {
    if (users == 0) {
      return false;
    }
    users++;
    return true;
  }

  /**
   * One less; the last frees everything, with NVLS once the other ranks do so too.
   *
   * @param patience how long they are waited for
   * @param idle whether all operations of the one that leaves have ended
   */
  public void leave(Duration patience, boolean idle) {
    synchronized (this) {
      kernelsStay |= !idle;
      users--;
      if (users > 0) {
        return;
      }
    }
    tell();
    boolean failed = failure() != null;
    CloseAll all = new CloseAll();
    if (!end(all)) {
      all.take(bootstrap::close);
    } else if (failed) {
      all.take(() -> nvls.leave(patience, true, this::release));
      all.take(bootstrap::close);
    } else {
      all.take(() -> nvls.leave(patience, false, this::releaseAll));
    }
    all.end();
  }

  /** Frees everything but the bootstrap. Nothing may be running, on no rank. */
  public void free() {
    CloseAll all = new CloseAll();
    if (end(all)) {
      all.take(this::release);
    }
    all.end();
  }

  /** Ends what runs on this rank; false if it was ended before, or something does not end. */
  private boolean end(CloseAll all) {
    synchronized (this) {
      if (freed) {
        return false;
      }
      freed = true;
    }
    boolean made = nvls.stop();
    boolean apart = later == null || later.stop();
    boolean stopped = proxy == null || proxy.stop();
    if (!made || !apart || !stopped || !isQuiet()) {
      long bytes = memory().stream().mapToLong(MemoryItem::bytes).sum();
      String user =
          !made
              ? "its thread that makes NVLS does not end"
              : !apart
                  ? "its thread that connects ranks does not end"
                  : stopped ? "an operation still runs" : "its proxy thread does not end";
      KeptMemory.keep(
          this, "communicator " + name + ", rank %d,".formatted(bootstrap.rank()), bytes, user);
      return false;
    }
    all.take(kernels::close);
    return true;
  }

  /** True if no kernel of all that shared runs any more. */
  private boolean isQuiet() {
    synchronized (this) {
      if (kernelsStay) {
        return false;
      }
    }
    try {
      return Patience.until(kernels::isIdle, SETTLED);
    } catch (CudaException e) {
      return true; // a context that is broken runs nothing
    }
  }

  private void release() {
    CloseAll all = new CloseAll();
    all.take(nvls::close);
    transports.forEach(named -> all.take(named.transport()::close));
    all.end();
  }

  private void releaseAll() {
    CloseAll all = new CloseAll();
    all.take(this::release);
    all.take(bootstrap::close);
    all.end();
  }

  /** Describes the memory of the transports. */
  List<MemoryItem> memory() {
    List<MemoryItem> items = new ArrayList<>();
    items.add(new MemoryItem("kernels", kernels.memoryBytes()));
    for (TransportRoutes.NamedTransport named : transports) {
      items.add(new MemoryItem("connections by " + named.name(), named.transport().memoryBytes()));
    }
    if (nvls.nvls() != null) {
      items.add(new MemoryItem("NVLS buffers", nvls.nvls().unicast().size()));
    }
    return items;
  }

  /** An item of memory. */
  record MemoryItem(String purpose, long bytes) {}
}
