package org.nccl4j.transport.net.ib.verbs;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.*;

import java.lang.System.Logger;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.transport.net.ib.bind.VerbsFunctions;

/**
 * Calls libibverbs and checks each return code. Handles are addresses. Any thread may call any
 * method; callers of one queue keep the library's rules for it.
 *
 * <p>Methods that free an object throw nothing: a dead device refuses them, and has nothing any
 * more.
 */
public final class Verbs {
  private static final Logger LOG = DebugLog.of("NET");
  private static final Map<String, Verbs> LOADED = new ConcurrentHashMap<>();
  private static final int ACCESS = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ;
  private static final int ENOSYS = 38;
  private static final int ENOTSUP = 95;
  private static final int EPROTONOSUPPORT = 93;

  private final VerbsFunctions library;

  private Verbs(String name) {
    library =
        name.equals(VerbsFunctions.LIBRARY)
            ? NativeLibrary.load(VerbsFunctions.class, NativeNames.VERBS)
            : NativeLibrary.load(VerbsFunctions.class, name);
    prepareForks();
  }

  /**
   * Before kernel 5.12, the process has other pages than its adapters once it has forked and
   * written to registered memory. This keeps that memory from children, before any is registered.
   */
  private void prepareForks() {
    int rc = library.ibv_fork_init();
    if (rc != 0) {
      LOG.log(
          Logger.Level.DEBUG,
          "InfiniBand: ibv_fork_init failed: {0}; with a kernel before 5.12 this process must not"
              + " fork",
          Descriptors.describe(errnoOf(rc)));
    }
  }

  /**
   * The library of a file name or path, loaded once.
   *
   * @throws SystemErrorException if there is none
   */
  public static Verbs load(String name) {
    return LOADED.computeIfAbsent(name, Verbs::new);
  }

  /**
   * The handles of all devices, good until {@link #freeDeviceList}; element 0 is the list's own.
   */
  public List<Long> deviceList() {
    Offheap count = new Offheap(Integer.BYTES);
    long list = library.ibv_get_device_list(count.address());
    if (list == 0) {
      int errno = errno();
      if (errno == ENOSYS) {
        return List.of();
      }
      throw failed("ibv_get_device_list", errno, "see that /dev/infiniband can be read");
    }
    List<Long> devices = new ArrayList<>();
    devices.add(list);
    for (int i = 0; i < count.getInt(0); i++) {
      devices.add(NativeMemory.getLong(list + (long) i * Long.BYTES));
    }
    return devices;
  }

  public void freeDeviceList(long list) {
    library.ibv_free_device_list(list);
  }

  public String deviceName(long device) {
    return library.ibv_get_device_name(device);
  }

  /** The device's globally unique identifier, as the number that it is written as. */
  public long deviceGuid(long device) {
    return Long.reverseBytes(library.ibv_get_device_guid(device));
  }

  public int deviceTransport(long device) {
    return NativeMemory.getInt(device + DEVICE_TRANSPORT_TYPE);
  }

  /** The device's directory below /sys/class/infiniband. */
  public String devicePath(long device) {
    return NativeMemory.string(device + DEVICE_IBDEV_PATH);
  }

  public long openDevice(long device, String name) {
    return notNull(
        library.ibv_open_device(device),
        "ibv_open_device(" + name + ")",
        "see that /dev/infiniband/uverbs* is there and may be read and written by this user; in a"
            + " container pass --device=/dev/infiniband");
  }

  public void closeDevice(long context) {
    freed(library.ibv_close_device(context), "ibv_close_device");
  }

  public int asyncDescriptor(long context) {
    return NativeMemory.getInt(context + CONTEXT_ASYNC_FD);
  }

  public void queryDevice(long context, Offheap attributes) {
    zero(
        library.ibv_query_device(context, attributes.address()),
        "ibv_query_device",
        "see the kernel's log (dmesg) for this device");
  }

  public void queryPort(long context, int port, Offheap attributes) {
    zero(
        library.ibv_query_port(context, port, attributes.address()),
        "ibv_query_port(" + port + ")",
        "see the kernel's log (dmesg) for this device");
  }

  /** Fills a GID table of the whole device, and says how many entries there are; -1: cannot. */
  public int queryGids(long context, Offheap entries) {
    try {
      long found =
          library._ibv_query_gid_table(
              context, entries.address(), entries.size() / GID_ENTRY_BYTES, 0, GID_ENTRY_BYTES);
      return found < 0 ? -1 : (int) found;
    } catch (UnsatisfiedLinkError e) {
      // Before rdma-core 32.
      return -1;
    }
  }

  /** One GID, or null where the library has none at this index. */
  public byte[] queryGid(long context, int port, int index) {
    Offheap gid = new Offheap(Gid.BYTES);
    return library.ibv_query_gid(context, port, index, gid.address()) == 0
        ? gid.getBytes(0, Gid.BYTES)
        : null;
  }

  public long allocDomain(long context) {
    return notNull(library.ibv_alloc_pd(context), "ibv_alloc_pd", LockedMemory.remedy());
  }

  public void deallocDomain(long domain) {
    freed(library.ibv_dealloc_pd(domain), "ibv_dealloc_pd");
  }

  /**
   * Registers memory for local use and for remote reads and writes.
   *
   * @param relaxed whether writes may arrive in another order than they were sent in
   */
  public long registerMemory(long domain, long address, long bytes, boolean relaxed, String where) {
    long region =
        relaxed
            ? registerRelaxed(domain, address, bytes)
            : library.ibv_reg_mr(domain, address, bytes, ACCESS);
    if (region == 0) {
      int errno = errno();
      throw failed(
          "registering %d bytes of memory at 0x%x with %s".formatted(bytes, address, where),
          errno,
          errno == LockedMemory.ENOMEM
              ? LockedMemory.remedy()
              : "register memory that is mapped for reading and writing; GPU memory needs the"
                  + " kernel module nvidia_peermem, or dma-buf");
    }
    return region;
  }

  /** An adapter or a kernel that cannot relax the order keeps it. */
  private long registerRelaxed(long domain, long address, long bytes) {
    try {
      return library.ibv_reg_mr_iova2(
          domain, address, bytes, address, ACCESS | ACCESS_RELAXED_ORDERING);
    } catch (UnsatisfiedLinkError e) {
      return library.ibv_reg_mr(domain, address, bytes, ACCESS); // before rdma-core 28
    }
  }

  /** Registers memory of a device by its dma-buf, or says that it cannot be done: 0. */
  public long registerDmaBuf(
      long domain, int fd, long offset, long bytes, long iova, boolean relaxed, String where) {
    int access = relaxed ? ACCESS | ACCESS_RELAXED_ORDERING : ACCESS;
    long region;
    try {
      region = library.ibv_reg_dmabuf_mr(domain, offset, bytes, iova, fd, access);
    } catch (UnsatisfiedLinkError e) {
      throw new SystemErrorException(
          ErrorId.INFINIBAND,
          "libibverbs has no ibv_reg_dmabuf_mr, so " + where + " takes no dma-buf",
          "install rdma-core 34 or newer, or load nvidia_peermem");
    }
    if (region == 0) {
      int errno = errno();
      boolean unsupported = errno == ENOTSUP || errno == EPROTONOSUPPORT || errno == ENOSYS;
      throw failed(
          "registering %d bytes of dma-buf %d with %s".formatted(bytes, fd, where),
          errno,
          unsupported
              ? "load nvidia_peermem instead, or use an adapter and a kernel (5.12 or newer) that"
                  + " take dma-bufs"
              : "pass an open dma-buf and a range that lies in it");
    }
    return region;
  }

  /** True if a device takes dma-bufs: asked with an invalid descriptor. */
  public boolean takesDmaBufs(long domain) {
    try {
      long region = library.ibv_reg_dmabuf_mr(domain, 0, 1, 0, -1, ACCESS_LOCAL_WRITE);
      int errno = errno();
      if (region != 0) {
        library.ibv_dereg_mr(region);
        return true;
      }
      return errno != ENOTSUP && errno != EPROTONOSUPPORT && errno != ENOSYS;
    } catch (UnsatisfiedLinkError e) {
      return false;
    }
  }

  public void deregisterMemory(long region) {
    freed(library.ibv_dereg_mr(region), "ibv_dereg_mr");
  }

  public int localKey(long region) {
    return NativeMemory.getInt(region + MR_LKEY);
  }

  public int remoteKey(long region) {
    return NativeMemory.getInt(region + MR_RKEY);
  }

  public long createCompletionQueue(long context, int entries) {
    return notNull(
        library.ibv_create_cq(context, entries, 0, 0, 0),
        "ibv_create_cq of " + entries + " entries",
        LockedMemory.remedy());
  }

  public void destroyCompletionQueue(long queue) {
    freed(library.ibv_destroy_cq(queue), "ibv_destroy_cq");
  }

  public long createQueuePair(long domain, Offheap attributes) {
    long pair = library.ibv_create_qp(domain, attributes.address());
    Reference.reachabilityFence(attributes);
    return notNull(
        pair, "ibv_create_qp", LockedMemory.remedy() + "; or set NCCL_IB_QPS_PER_CONNECTION lower");
  }

  public int queuePairNumber(long pair) {
    return NativeMemory.getInt(pair + QP_NUM);
  }

  /** Moves a queue pair to a state. 0, or the error number. */
  public int modifyQueuePair(long pair, Offheap attributes, int mask) {
    int errno = library.ibv_modify_qp(pair, attributes.address(), mask);
    Reference.reachabilityFence(attributes);
    return errno;
  }

  public void destroyQueuePair(long pair) {
    freed(library.ibv_destroy_qp(pair), "ibv_destroy_qp");
  }

  /** The function that posts to a queue pair's send queue. */
  public long postSendFunction(long pair) {
    return NativeMemory.getLong(NativeMemory.getLong(pair + QP_CONTEXT) + CONTEXT_POST_SEND);
  }

  /** The function that posts to a queue pair's receive queue. */
  public long postReceiveFunction(long pair) {
    return NativeMemory.getLong(NativeMemory.getLong(pair + QP_CONTEXT) + CONTEXT_POST_RECV);
  }

  /** The function that polls a completion queue. */
  public long pollFunction(long queue) {
    return NativeMemory.getLong(NativeMemory.getLong(queue + CQ_CONTEXT) + CONTEXT_POLL_CQ);
  }

  /** Calls post_send or post_recv. 0, or the error number. */
  @HotPath
  public static int post(long function, long pair, long request, long bad) {
    return NativeFunction.call(function, pair, request, bad);
  }

  /** Calls poll_cq. How many completions it filled in, negative if the queue is broken. */
  @HotPath
  public static int poll(long function, long queue, int most, long completions) {
    return NativeFunction.call(function, queue, most, completions);
  }

  /** Takes an event that is there; false if there was none after all. */
  public boolean asyncEvent(long context, Offheap event) {
    boolean taken = library.ibv_get_async_event(context, event.address()) == 0;
    Reference.reachabilityFence(event);
    return taken;
  }

  public void acknowledge(Offheap event) {
    library.ibv_ack_async_event(event.address());
    Reference.reachabilityFence(event);
  }

  public String statusName(int status) {
    return library.ibv_wc_status_str(status);
  }

  public String eventName(int type) {
    return library.ibv_event_type_str(type);
  }

  private int errno() {
    return NativeLibrary.errno();
  }

  private long notNull(long handle, String what, String remedy) {
    if (handle == 0) {
      throw failed(what, errno(), remedy);
    }
    return handle;
  }

  private void zero(int rc, String what, String remedy) {
    if (rc != 0) {
      throw failed(what, errnoOf(rc), remedy);
    }
  }

  private void freed(int rc, String what) {
    if (rc != 0) {
      String why = Descriptors.describe(errnoOf(rc));
      LOG.log(Logger.Level.DEBUG, "InfiniBand: {0} failed: {1}", what, why);
    }
  }

  /** The error of a call that returned other than 0: some return it, others set errno. */
  private int errnoOf(int rc) {
    return rc > 0 ? rc : errno();
  }

  public static SystemErrorException failed(String what, int errno, String remedy) {
    return new SystemErrorException(
        ErrorId.INFINIBAND,
        "InfiniBand: " + what + " failed: " + Descriptors.describe(errno),
        remedy);
  }
}
