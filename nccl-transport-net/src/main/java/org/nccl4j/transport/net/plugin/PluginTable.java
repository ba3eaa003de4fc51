package org.nccl4j.transport.net.plugin;

import java.lang.System.Logger;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.Offheap;

/**
 * The functions of a plug-in, in one of the versions 8 to 11 of ncclNet: a name, then pointers in a
 * fixed order. This file alone knows how the versions differ. Any thread; a plug-in is called by
 * one thread at a time for each of its objects.
 */
final class PluginTable {
  /** The versions that are looked for, the newest first. */
  static final int NEWEST = 11;

  static final int OLDEST = 8;

  /** Bytes of a listener's handle. */
  static final int HANDLE_BYTES = 128;

  static final int HOST_POINTER = 1;
  static final int CUDA_POINTER = 2;
  static final int DMA_BUF_POINTER = 4;

  private static final Logger LOG = DebugLog.of("NET");
  private static final int SUCCESS = 0;
  private static final int REMOTE_ERROR = 6;
  private static final int WARN = 2;

  /** The level of messages that are no warnings. */
  private static volatile Logger.Level level = Logger.Level.DEBUG;

  /** Both callbacks take five words, if one leaves out the texts that the logger's format names. */
  private static final class Callbacks {
    static final long LOGGER = NativeFunction.callback(PluginTable::log);
    static final long PROFILER = NativeFunction.callback((a, b, c, d, e) -> SUCCESS);
  }

  /** The functions in their order. */
  private enum Function {
    INIT,
    DEVICES,
    GET_PROPERTIES,
    LISTEN,
    CONNECT,
    ACCEPT,
    REG_MR,
    REG_MR_DMA_BUF,
    DEREG_MR,
    ISEND,
    IRECV,
    IFLUSH,
    TEST,
    CLOSE_SEND,
    CLOSE_RECV,
    CLOSE_LISTEN,
    GET_DEVICE_MR,
    IRECV_CONSUMED,
    MAKE_V_DEVICE,
    FINALIZE
  }

  private final String name;
  private final int version;
  private final long[] functions = new long[Function.values().length];

  /**
   * Reads a table.
   *
   * @param version 8 to 11
   * @param address of the table, which stays
   */
  PluginTable(int version, long address) {
    this.version = version;
    this.name = NativeMemory.string(NativeMemory.getLong(address));
    int n = version >= 11 ? functions.length : version >= 9 ? functions.length - 1 : 18;
    for (int f = 0; f < n; f++) {
      functions[f] = NativeMemory.getLong(address + (f + 1) * (long) Long.BYTES);
    }
  }

  /** Sets the level at which all plug-ins' messages are logged, but for warnings. */
  static void logAt(Logger.Level chosen) {
    level = chosen;
  }

  /** The name that the plug-in gives its network, such as "AWS Libfabric". */
  String name() {
    return name;
  }

  /** True if each communicator initialises the plug-in for itself. */
  boolean hasContexts() {
    return version >= 11;
  }

  /** True if sizes of messages are 64 bits wide. */
  boolean hasWideSizes() {
    return version >= 9;
  }

  /** A device's properties. */
  PluginProperties properties(int device, Offheap block) {
    check(Function.GET_PROPERTIES, call(Function.GET_PROPERTIES, device, block.address()));
    return PluginProperties.read(version, block.address());
  }

  /**
   * Initialises the plug-in.
   *
   * @param block where the context comes to lie, where the version has contexts
   * @param communicator a number that all ranks of the communicator share
   */
  void init(Offheap block, long communicator) {
    long log = Callbacks.LOGGER;
    long profile = Callbacks.PROFILER;
    int result;
    if (version >= 11) {
      // The configuration: one number, the traffic class, which is undefined.
      block.bytes().putInt(Long.BYTES, -1);
      result =
          call(
              Function.INIT,
              block.address(),
              communicator,
              block.address() + Long.BYTES,
              log,
              profile);
    } else {
      result = call(Function.INIT, log, profile);
    }
    check(Function.INIT, result);
  }

  void end(long context) {
    if (functions[Function.FINALIZE.ordinal()] != 0) {
      call(Function.FINALIZE, context);
    }
  }

  int devices(Offheap block) {
    check(Function.DEVICES, call(Function.DEVICES, block.address()));
    return block.bytes().getInt(0);
  }

  void listen(long context, int device, long handle, long listener) {
    check(
        Function.LISTEN,
        version >= 11
            ? call(Function.LISTEN, context, device, handle, listener)
            : call(Function.LISTEN, device, handle, listener));
  }

  /**
   * Takes the next step towards a connection.
   *
   * @param config where the traffic class is
   * @param sender where the sender comes to lie; 0 there as long as it is not connected
   * @param offload where a request for offload comes to lie, which is ignored
   */
  void connect(long context, int device, long config, long handle, long sender, long offload) {
    check(
        Function.CONNECT,
        switch (version) {
          case 8, 9 -> call(Function.CONNECT, device, handle, sender, offload);
          case 10 -> call(Function.CONNECT, device, config, handle, sender, offload);
          default -> call(Function.CONNECT, context, device, handle, sender, offload);
        });
  }

  void accept(long listener, long receiver, long offload) {
    check(Function.ACCEPT, call(Function.ACCEPT, listener, receiver, offload));
  }

  void register(long connection, long address, long bytes, int type, long handle) {
    check(Function.REG_MR, call(Function.REG_MR, connection, address, bytes, type, handle));
  }

  void registerDmaBuf(
      long connection, long address, long bytes, int type, long offset, int fd, long handle) {
    int result =
        NativeFunction.call(
            functions[Function.REG_MR_DMA_BUF.ordinal()],
            connection,
            address,
            bytes,
            type,
            offset,
            fd,
            handle,
            0);
    check(Function.REG_MR_DMA_BUF, result);
  }

  void deregister(long connection, long handle) {
    check(Function.DEREG_MR, call(Function.DEREG_MR, connection, handle));
  }

  @HotPath
  void isend(long sender, long address, long bytes, int tag, long handle, long request) {
    long function = functions[Function.ISEND.ordinal()];
    check(
        Function.ISEND,
        version >= 10
            ? NativeFunction.call(function, sender, address, bytes, tag, handle, 0, request, 0)
            : call(Function.ISEND, sender, address, bytes, tag, handle, request));
  }

  /** Arguments are addresses of arrays, whose sizes are wide or not. */
  @HotPath
  void irecv(
      long receiver, int n, long addresses, long sizes, long tags, long handles, long request) {
    long function = functions[Function.IRECV.ordinal()];
    check(
        Function.IRECV,
        version >= 10
            ? NativeFunction.call(
                function, receiver, n, addresses, sizes, tags, handles, /* profile= */ 0, request)
            : NativeFunction.call(
                function, receiver, n, addresses, sizes, tags, handles, request, 0));
  }

  @HotPath
  void iflush(long receiver, int n, long addresses, long sizes, long handles, long request) {
    check(Function.IFLUSH, call(Function.IFLUSH, receiver, n, addresses, sizes, handles, request));
  }

  @HotPath
  void test(long request, long done, long sizes) {
    check(Function.TEST, call(Function.TEST, request, done, sizes));
  }

  void closeSend(long sender) {
    call(Function.CLOSE_SEND, sender);
  }

  void closeRecv(long receiver) {
    call(Function.CLOSE_RECV, receiver);
  }

  void closeListen(long listener) {
    call(Function.CLOSE_LISTEN, listener);
  }

  private int call(Function function, long a) {
    return call(function, a, 0, 0, 0, 0, 0);
  }

  private int call(Function function, long a, long b) {
    return call(function, a, b, 0, 0, 0, 0);
  }

  @HotPath
  private int call(Function function, long a, long b, long c) {
    return call(function, a, b, c, 0, 0, 0);
  }

  private int call(Function function, long a, long b, long c, long d) {
    return call(function, a, b, c, d, 0, 0);
  }

  private int call(Function function, long a, long b, long c, long d, long e) {
    return call(function, a, b, c, d, e, 0);
  }

  @HotPath
  private int call(Function function, long a, long b, long c, long d, long e, long f) {
    return (int) NativeFunction.call(functions[function.ordinal()], a, b, c, d, e, f);
  }

  @HotPath
  private void check(Function function, int result) {
    if (result != SUCCESS) {
      throw failure(function, result);
    }
  }

  private NcclException failure(Function function, int result) {
    String what =
        "network plug-in %s: its function %s returned %d (%s)"
            .formatted(name, function, result, meaning(result));
    return result == REMOTE_ERROR
        ? new RemoteException(
            ErrorId.CONNECTION, what, "look at the process on the other side, and at the network")
        : new SystemErrorException(
            ErrorId.SYSTEM,
            what,
            "see the plug-in's messages with NCCL_DEBUG=INFO, or set NCCL_NET_PLUGIN=none");
  }

  private static String meaning(int result) {
    return switch (result) {
      case 1 -> "ncclUnhandledCudaError";
      case 2 -> "ncclSystemError";
      case 3 -> "ncclInternalError";
      case 4 -> "ncclInvalidArgument";
      case 5 -> "ncclInvalidUsage";
      case REMOTE_ERROR -> "ncclRemoteError";
      default -> "not a result of NCCL's";
    };
  }

  /** The plug-in's messages. A Java function gets no values for the format. */
  private static int log(long severity, long flags, long file, long line, long format) {
    try {
      Logger.Level at = (int) severity == WARN ? Logger.Level.WARNING : level;
      if (LOG.isLoggable(at)) {
        LOG.log(
            at,
            "network plug-in: {0} ({1}:{2})",
            NativeMemory.string(format),
            NativeMemory.string(file),
            (int) line);
      }
    } catch (RuntimeException e) {
      LOG.log(Logger.Level.DEBUG, "a message of a network plug-in", e);
    }
    return SUCCESS;
  }

  @Override
  public String toString() {
    return name + " (ncclNet version " + version + ")";
  }
}
