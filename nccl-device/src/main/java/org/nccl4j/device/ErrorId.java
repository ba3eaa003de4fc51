package org.nccl4j.device;

import org.nccl4j.device.NcclException.Code;

/**
 * The kinds of errors, listed in docs/reference/errors.md. A kind refines a result code. Each code
 * has a general kind, and kinds for frequent errors.
 */
public enum ErrorId {
  /** {@link Code#UNHANDLED_CUDA_ERROR}. */
  CUDA(Code.UNHANDLED_CUDA_ERROR),
  /** {@link Code#SYSTEM_ERROR}, for errors without their own kind. */
  SYSTEM(Code.SYSTEM_ERROR),
  /** Another host cannot be reached. */
  UNREACHABLE(
      Code.SYSTEM_ERROR,
      "Another host does not answer, or refuses the connection, at the address that it gave",
      "allow TCP between the hosts, choose the network with NCCL_SOCKET_IFNAME, and check that the"
          + " process there still runs"),
  /** No port can be bound. */
  PORT(
      Code.SYSTEM_ERROR,
      "Cannot bind any allowed port: all are in use, or the address belongs to another host",
      "end the program that uses the port, or allow other ports with NCCL4J_BOOTSTRAP_PORTS or"
          + " NCCL_COMM_ID; if rank 0 has this error, the other ranks wait for it until"
          + " NCCL4J_INIT_TIMEOUT"),
  /** No usable network interface. */
  INTERFACE(
      Code.SYSTEM_ERROR,
      "None of the network interfaces that the settings allow is up",
      "bring one up, or change NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY"),
  /** The operating system refuses memory or addresses. */
  MEMORY(
      Code.SYSTEM_ERROR,
      "The operating system maps no more memory, or has no free addresses for it",
      "raise the limits on address space (ulimit -v) or on mappings (sysctl vm.max_map_count), or"
          + " use less memory"),
  /** The operating system refuses shared memory. */
  SHARED_MEMORY(
      Code.SYSTEM_ERROR,
      "The operating system gives no more shared memory, or not the kind that is requested",
      "make /dev/shm larger (docker run --shm-size), or use NCCL4J_SHM=memfd; if a container"
          + " forbids memfd_create, use NCCL4J_SHM=devshm"),
  /** A native library is missing. */
  LIBRARY(
      Code.SYSTEM_ERROR,
      "A native library cannot be loaded",
      "install the library that the message names; `./nccl doctor` tests it"),
  /** Too many open files. */
  OPEN_FILES(
      Code.SYSTEM_ERROR,
      "The process cannot open more files or sockets",
      "raise the limit of open files (ulimit -n)"),
  /** A file or directory cannot be written. */
  UNWRITABLE(
      Code.SYSTEM_ERROR,
      "A file that a setting or a command names cannot be written",
      "name a file in an existing directory that this user may write to"),
  /** Unix sockets between the ranks of a machine fail. */
  UNIX_SOCKET(
      Code.SYSTEM_ERROR,
      "The ranks of a machine cannot pass memory to each other over Unix sockets",
      "run the ranks as one user, and let their containers share /dev/shm (docker run --ipc=host)"),
  /** InfiniBand or RoCE fails. */
  INFINIBAND(
      Code.SYSTEM_ERROR,
      "An InfiniBand or RoCE device refuses a call, is down, or does not reach the other port",
      "see `./nccl doctor` and the kernel's log (dmesg); choose ports with NCCL_IB_HCA, or use"
          + " sockets with NCCL_IB_DISABLE=1"),
  /** The library to compare with cannot run. */
  COMPARISON(
      Code.SYSTEM_ERROR,
      "`./nccl perf` cannot run the library to compare with",
      "install it, or omit --compare"),
  /** {@link Code#INTERNAL_ERROR}. */
  INTERNAL(Code.INTERNAL_ERROR),
  /** {@link Code#INVALID_ARGUMENT}, for errors without their own kind. */
  ARGUMENT(Code.INVALID_ARGUMENT),
  /** Null where a value is required. */
  NULL(
      Code.INVALID_ARGUMENT,
      "An argument is null",
      "pass a value for the argument that the message names"),
  /** A missing device. */
  DEVICE(
      Code.INVALID_ARGUMENT,
      "The device does not exist, or none was named",
      "see `./nccl doctor` for the devices; CUDA_VISIBLE_DEVICES hides GPUs"),
  /** An invalid buffer. */
  BUFFER(
      Code.INVALID_ARGUMENT,
      "A buffer is null, too small, or not memory of the communicator's device",
      "pass memory of the communicator's device with room for the count of the call"),
  /** An invalid count or offset. */
  COUNT(
      Code.INVALID_ARGUMENT,
      "A count or an offset is negative or too large, or an array has no entry for some rank",
      "pass 0 or more elements; in an array, pass an entry for each rank"),
  /** An invalid rank. */
  RANK(
      Code.INVALID_ARGUMENT,
      "A rank, root, peer or color is outside the communicator",
      "pass 0 to one less than the number of ranks"),
  /** An invalid type or operator. */
  TYPE(
      Code.INVALID_ARGUMENT,
      "An element type or an operator is null, or they do not fit together",
      "pass both; create the operator for the type of the elements"),
  /** An invalid stream. */
  STREAM(
      Code.INVALID_ARGUMENT,
      "A stream is null, of another device, or used by two ranks of one communicator in one group",
      "create a stream for each rank, on the communicator's device"),
  /** An invalid event. */
  EVENT(
      Code.INVALID_ARGUMENT,
      "An event is used with another kind of device than its own",
      "create the event on the stream's device"),
  /** An algorithm that is not available. */
  ALGORITHM(
      Code.INVALID_ARGUMENT,
      "The kernels of a GPU or of NVLS cannot run an operation by the algorithm that was chosen for"
          + " it. Where NCCL_ALGO and NCCL_PROTO name nothing that an operation can use, it runs"
          + " nevertheless, by the cheapest, and the log has a warning",
      "unset NCCL_ALGO, or choose an algorithm that the message names"),
  /** An invalid layout of connections. */
  LAYOUT(
      Code.INVALID_ARGUMENT,
      "A device's kernels do not support the given layout of connections",
      "use the layout that KernelDevice.connectionLayout gives; report the error if you did not"
          + " choose the layout"),
  /** An invalid setting. */
  SETTING(
      Code.INVALID_ARGUMENT,
      "The value of a setting cannot be parsed or is out of range",
      "see docs/reference/settings.md for the values; `./nccl doctor` shows where it was set"),
  /** An invalid file. */
  FILE(
      Code.INVALID_ARGUMENT,
      "A file cannot be read, or its contents are invalid",
      "name a file as the message describes it, which this user may read"),
  /** An invalid option of a command. */
  OPTION(
      Code.INVALID_ARGUMENT,
      "An option of a command has an invalid value",
      "see `./nccl COMMAND --help`; the message lists the valid values"),
  /** Invalid certificates. */
  CERTIFICATE(
      Code.INVALID_ARGUMENT,
      "The certificates or the key for TLS are invalid, or some are not set",
      "set NCCL4J_TLS_CERT, NCCL4J_TLS_KEY and NCCL4J_TLS_CA to PEM files on all ranks, or unset"
          + " them on all ranks"),
  /** An unknown name. */
  NAME(
      Code.INVALID_ARGUMENT,
      "No algorithm, protocol, operation, transport, network or plug-in has the given name",
      "choose a name from the message's list, or put the plug-in's jar on the class path or module"
          + " path (--class-path JAR of ./nccl)"),
  /** An invalid unique id. */
  UNIQUE_ID(
      Code.INVALID_ARGUMENT,
      "Bytes or text are not a unique id, or ids are passed twice or in the wrong number",
      "pass the result of UniqueId.create, unchanged, to all ranks"),
  /** Memory that cannot become a window. */
  WINDOW(
      Code.INVALID_ARGUMENT,
      "Memory cannot be registered: other ranks cannot map it, or the ranks' sizes or offsets"
          + " differ, or the windows' range is full",
      "register memory of Device.memAlloc with the same size and offset on all ranks; enlarge the"
          + " range with NCCL_WIN_STRIDE"),
  /** {@link Code#INVALID_USAGE}, for errors without their own kind. */
  USAGE(Code.INVALID_USAGE),
  /** Options of a command that do not fit together. */
  OPTIONS(
      Code.INVALID_USAGE,
      "Options of a command contradict each other or do not fit this machine",
      "omit or change the options that the message names"),
  /** Use after close. */
  CLOSED(
      Code.INVALID_USAGE,
      "A communicator, a stream or memory is used after close, or a communicator after finish",
      "close it after its last use"),
  /** Abort. */
  ABORTED(
      Code.INVALID_USAGE,
      "A rank aborted the communicator",
      "create a communicator of the remaining ranks with Communicator.shrink"),
  /** Revoke. */
  REVOKED(
      Code.INVALID_USAGE,
      "A rank revoked the communicator, so that all ranks can call shrink",
      "call Communicator.shrink, or close the communicator"),
  /** Suspend. */
  SUSPENDED(
      Code.INVALID_USAGE,
      "A communicator is used while it is suspended, or cannot be suspended",
      "call resume on all ranks; before suspend, deregister windows and close splits"),
  /** Ranks call different operations. */
  CALLS_DIFFER(
      Code.INVALID_USAGE,
      "The ranks call different operations, or pass different arguments; the data of the call"
          + " reveal it",
      "make the same calls with the same arguments in the same order on all ranks, including calls"
          + " from several threads"),
  /** Ranks use communicators in different orders; {@link OrderMismatchException}. */
  ORDER_DIFFERS(
      Code.INVALID_USAGE,
      "The ranks use communicators in different orders and would wait for each other forever; found"
          + " with NCCL_CHECK_MODE=DEBUG_GLOBAL",
      "call the operations of both communicators in the same order on all ranks, or in separate"
          + " streams"),
  /** Ranks that do not fit together. */
  RANKS_DIFFER(
      Code.INVALID_USAGE,
      "The ranks disagree on the number of ranks, use a number twice, have different unique ids, or"
          + " run different versions of nccl4j",
      "start all ranks with the same program and arguments, and give each rank its own number"),
  /** Ranks with different settings. */
  SETTINGS_DIFFER(
      Code.INVALID_USAGE,
      "The ranks compute different results, or cannot connect, because their settings or topology"
          + " files differ",
      "give all ranks the same NCCL_ settings"),
  /** An invalid topology. */
  TOPOLOGY(
      Code.INVALID_USAGE,
      "A topology or graph file does not fit this machine or its ranks",
      "name this machine's file in NCCL_TOPO_FILE and NCCL_GRAPH_FILE, or unset them"),
  /** An impossible order of reductions. */
  DETERMINISM(
      Code.INVALID_USAGE,
      "A communicator cannot reduce in the order that NCCL4J_DETERMINISM requires",
      "unset NCCL4J_DETERMINISM, or unset NCCL_ALGO; see docs/concepts/reduction-order.md"),
  /** Two ranks without a transport. */
  NO_TRANSPORT(
      Code.INVALID_USAGE,
      "No transport connects two ranks",
      "put the transports on the class path or module path; check NCCL4J_TRANSPORTS,"
          + " NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET"),
  /** Two ranks on one GPU. */
  SHARED_GPU(
      Code.INVALID_USAGE,
      "Two ranks use one GPU",
      "give each rank its own GPU, or set NCCL_MULTI_RANK_GPU_ENABLE=1"),
  /** A window or a registration at the wrong time. */
  HANDLE(
      Code.INVALID_USAGE,
      "A window or a registration belongs to another communicator, is deregistered twice, is still"
          + " in use, or is used outside its life",
      "deregister each once, with its own communicator, after its last operation has ended"),
  /** A capture that cannot be ordered with other operations. */
  CAPTURE(
      Code.INVALID_USAGE,
      "An operation on connections that several communicators share is captured without"
          + " CudaStream.beginCapture, or a group has operations of a rank in captured streams and"
          + " in others",
      "capture with CudaStream.beginCapture, or split with"
          + " CommunicatorConfig.withSplitShare(false); capture all streams of a group into one"
          + " graph, or none"),
  /** A group at the wrong time. */
  GROUP(
      Code.INVALID_USAGE,
      "A group is ended or simulated without a start, or a group inside it failed",
      "match each Group.start with one Group.end on the same thread, or use Group.run; correct the"
          + " inner group"),
  /** Sends of a rank to itself. */
  SELF_SEND(
      Code.INVALID_USAGE,
      "A rank's sends to itself do not match its receives from itself",
      "put each such send and its receive into one group, with the same count"),
  /** The time of an event that has not happened. */
  NOT_HAPPENED(
      Code.INVALID_USAGE,
      "The time between two events is requested before both have happened",
      "record both events, and synchronize the later one first"),
  /** A failure of a user's function. */
  USER_FUNCTION(
      Code.INVALID_USAGE,
      "A user's reduction or a function in a stream threw an exception, or its CUDA C++ does not"
          + " compile",
      "correct the function; its exception is the cause, or the message has the compiler's log"),
  /** A failure of a plug-in. */
  PLUGIN(
      Code.INVALID_USAGE,
      "A transport, network, tuner or profiler violates its interface",
      "report it to the author of the plug-in, or remove the plug-in's jar"),
  /** An interrupted thread. */
  INTERRUPTED(
      Code.INVALID_USAGE,
      "A thread was interrupted while it waited for other ranks",
      "do not interrupt a thread that is creating a communicator or exchanging data with other"
          + " ranks; use deadlines"),
  /** An unsupported request. */
  UNSUPPORTED(
      Code.INVALID_USAGE,
      "The device or this build does not support the request",
      "use another type, operator or device; the message names those that work"),
  /** {@link Code#REMOTE_ERROR}, for errors without their own kind. */
  REMOTE(Code.REMOTE_ERROR),
  /** Another rank failed and sent its error. */
  RANK_FAILED(
      Code.REMOTE_ERROR,
      "Another rank failed; its error is the cause of this one",
      "look at the cause, and at that rank's output"),
  /** A process ended. */
  RANK_DIED(
      Code.REMOTE_ERROR,
      "The process of another rank, or of the bootstrap root, ended without closing the"
          + " communicator",
      "look at its output and at the kernel's log (dmesg: out of memory); continue without it with"
          + " Communicator.shrink and ShrinkMode.ABORT"),
  /** A rank closed too early. */
  RANK_CLOSED(
      Code.REMOTE_ERROR,
      "Another rank closed its communicator, and this rank called an operation that the other rank"
          + " never called",
      "look at that rank's output for the error that made it leave; call the same operations on all"
          + " ranks before closing"),
  /** A process without heartbeats. */
  RANK_SILENT(
      Code.REMOTE_ERROR,
      "The process of another rank sends no heartbeats: it is stopped, or its host or network is"
          + " gone",
      "look at that host; allow longer silence with NCCL4J_HEARTBEAT_TIMEOUT"),
  /** A broken connection of the network. */
  CONNECTION(
      Code.REMOTE_ERROR,
      "A connection over the network broke, or its other end closed it",
      "look at the process and the network on the other side"),
  /** Data that changed between two hosts. */
  DAMAGED(
      Code.REMOTE_ERROR,
      "A message over the network did not arrive as it was sent: memory, a NIC, a cable or a switch"
          + " between the two hosts changed it",
      "run again with NCCL4J_NET_CHECKSUM=crc32c; test the hardware between the hosts that the"
          + " message names"),
  /** Invalid data from another rank. */
  PROTOCOL(
      Code.REMOTE_ERROR,
      "Another rank sent data that this rank does not understand or expect",
      "run the same version of nccl4j with the same settings on all ranks"),
  /** Memory of another rank that cannot be opened. */
  PEER_MEMORY(
      Code.REMOTE_ERROR,
      "Memory of another rank cannot be opened in this process",
      "in containers share the host's IPC namespace (--ipc=host); load nccl4j once in a process"),
  /** {@link Code#TIMEOUT}, for errors without their own kind. */
  TIMEOUT(Code.TIMEOUT),
  /** Missing ranks. */
  RANKS_MISSING(
      Code.TIMEOUT,
      "Ranks did not join the creation of a communicator, or an exchange, in time",
      "check why the ranks that the message names did not start or make the same call, or allow"
          + " more time with NCCL4J_INIT_TIMEOUT"),
  /** Missing connections. */
  NOT_CONNECTED(
      Code.TIMEOUT,
      "Two ranks were not connected in time",
      "look at the other rank's log, or allow more time with NCCL4J_INIT_TIMEOUT"),
  /** An operation whose deadline passed. */
  OPERATION(
      Code.TIMEOUT,
      "An operation waited for another rank until its deadline",
      "check the rank that is behind (jstack, `./nccl diagnose`), or allow more time with"
          + " NCCL4J_TIMEOUT; NCCL_CHECK_MODE=DEBUG_GLOBAL compares the ranks' collectives"),
  /** Operations that still run. */
  STILL_RUNNING(
      Code.TIMEOUT,
      "Operations were still running when a communicator was closed or shrunk, or when a stream's"
          + " synchronization had to end",
      "synchronize the streams first, or allow more time");

  private static final String PREFIX = "NCCL4J-";

  private final Code code;
  private final String meaning;
  private final String remedy;

  ErrorId(Code code) {
    this(code, code.meaning(), code.remedy());
  }

  ErrorId(Code code, String meaning, String remedy) {
    this.code = code;
    this.meaning = meaning;
    this.remedy = remedy;
  }

  /** The name in messages and in docs/reference/errors.md; it never changes. */
  public String text() {
    return PREFIX + name().replace('_', '-');
  }

  /** The result code of this kind. */
  public Code code() {
    return code;
  }

  /** The meaning, without a full stop at the end. */
  public String meaning() {
    return meaning;
  }

  /** The general remedy, without a full stop at the end. */
  public String remedy() {
    return remedy;
  }
}
