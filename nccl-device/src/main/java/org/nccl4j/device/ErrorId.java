package org.nccl4j.device;

import org.nccl4j.device.NcclException.Code;

/**
 * What went wrong, finer than by its result code: the catalogue of docs/reference/errors.md. Every
 * code has a general one beside those that users meet most.
 */
public enum ErrorId {
  /** {@link Code#UNHANDLED_CUDA_ERROR}. */
  CUDA(Code.UNHANDLED_CUDA_ERROR),
  /** {@link Code#SYSTEM_ERROR}, of another kind than those below. */
  SYSTEM(Code.SYSTEM_ERROR),
  /** A rank, a root or a peer cannot be reached. */
  UNREACHABLE(
      Code.SYSTEM_ERROR,
      "Another host does not answer, or refuses, at the address that it gave",
      "let TCP through between the hosts, choose the network by NCCL_SOCKET_IFNAME, and see that"
          + " the process there still runs"),
  /** No port to listen on. */
  PORT(
      Code.SYSTEM_ERROR,
      "No port can be listened on: those that are allowed are taken or not this host's",
      "end the program that has the port, or allow others by NCCL4J_BOOTSTRAP_PORTS or"
          + " NCCL_COMM_ID"),
  /** No network interface. */
  INTERFACE(
      Code.SYSTEM_ERROR,
      "No network interface is up that the settings allow",
      "bring one up, or change NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY"),
  /** Memory or addresses are refused. */
  MEMORY(
      Code.SYSTEM_ERROR,
      "The operating system maps no (more) memory, or has no addresses for it",
      "raise the limits on address space (ulimit -v) or on mappings (sysctl vm.max_map_count), or"
          + " use less memory"),
  /** Shared memory is refused. */
  SHARED_MEMORY(
      Code.SYSTEM_ERROR,
      "The operating system gives no (more) shared memory, or none of the kind that is asked for",
      "make /dev/shm larger (docker run --shm-size), or use NCCL4J_SHM=memfd; where a container"
          + " forbids memfd_create, NCCL4J_SHM=devshm"),
  /** A native library is missing. */
  LIBRARY(
      Code.SYSTEM_ERROR,
      "A native library cannot be loaded",
      "install what the message names; `./nccl doctor` tests it"),
  /** Too many open files. */
  OPEN_FILES(
      Code.SYSTEM_ERROR,
      "The process may open no more files or sockets",
      "raise the limit of open files (ulimit -n)"),
  /** A file or directory that cannot be written. */
  UNWRITABLE(
      Code.SYSTEM_ERROR,
      "A file that a setting or a command names cannot be written",
      "name one in a directory that exists and that this user may write to"),
  /** Sockets of one machine's ranks. */
  UNIX_SOCKET(
      Code.SYSTEM_ERROR,
      "The ranks of a machine cannot pass memory to each other by Unix sockets",
      "let them share a directory (-Djava.io.tmpdir) and run as one user; containers need a common"
          + " mount and network namespace"),
  /** InfiniBand or RoCE. */
  INFINIBAND(
      Code.SYSTEM_ERROR,
      "An InfiniBand or RoCE device refuses, is down, or does not reach the other port",
      "see `./nccl doctor` and the kernel's log (dmesg); NCCL_IB_HCA chooses ports,"
          + " NCCL_IB_DISABLE=1 goes by sockets instead"),
  /** Another library to compare with. */
  COMPARISON(
      Code.SYSTEM_ERROR,
      "What `./nccl perf` is to compare with cannot be run",
      "install it, or leave out --compare"),
  /** {@link Code#INTERNAL_ERROR}. */
  INTERNAL(Code.INTERNAL_ERROR),
  /** {@link Code#INVALID_ARGUMENT}, of another kind than those below. */
  ARGUMENT(Code.INVALID_ARGUMENT),
  /** Null. */
  NULL(
      Code.INVALID_ARGUMENT,
      "Null was passed where the call needs something",
      "pass what the message names"),
  /** A device that is not there. */
  DEVICE(
      Code.INVALID_ARGUMENT,
      "There is no such device, or none was named",
      "see `./nccl doctor` for the devices; CUDA_VISIBLE_DEVICES hides GPUs"),
  /** A buffer that cannot be right. */
  BUFFER(
      Code.INVALID_ARGUMENT,
      "A buffer is null, too small, of another device, or no memory of the device",
      "pass memory of the communicator's device with room for the count of the call"),
  /** A count that cannot be right. */
  COUNT(
      Code.INVALID_ARGUMENT,
      "A count or an offset is negative, too large, or not given for each rank",
      "pass 0 or more elements, an entry for each rank where an array is asked for"),
  /** A rank that is none. */
  RANK(
      Code.INVALID_ARGUMENT,
      "A rank, root, peer or color is none of the communicator's",
      "pass 0 to one less than the number of ranks"),
  /** A type or an operator that cannot be right. */
  TYPE(
      Code.INVALID_ARGUMENT,
      "An element type or an operator is null, or they do not go together",
      "pass both; make an operator for the type of the elements"),
  /** A stream that cannot be right. */
  STREAM(
      Code.INVALID_ARGUMENT,
      "A stream is null, of another device, or used by two ranks of one communicator in one group",
      "create one for each rank, on the communicator's device"),
  /** An event that cannot be right. */
  EVENT(
      Code.INVALID_ARGUMENT,
      "An event is used with another kind of device than it was made for",
      "create it on the stream's device"),
  /** An algorithm that cannot be right. */
  ALGORITHM(
      Code.INVALID_ARGUMENT,
      "An operation, a device or a communicator is without the algorithm that is asked for",
      "leave NCCL_ALGO to the library, or choose one that the message names"),
  /** A layout of connections that cannot be right. */
  LAYOUT(
      Code.INVALID_ARGUMENT,
      "A device is given a layout of connections that its kernels cannot work with",
      "use the layout that KernelDevice.connectionLayout gives; report it where it is not yours"),
  /** A setting that cannot be right. */
  SETTING(
      Code.INVALID_ARGUMENT,
      "The value of a setting cannot be read or is out of its range",
      "see docs/reference/settings.md for the values; `./nccl doctor` shows where it was set"),
  /** A file that cannot be right. */
  FILE(
      Code.INVALID_ARGUMENT,
      "A file that is named cannot be read, or is not what it should be",
      "name one that the message describes and that this user may read"),
  /** An option of a command that cannot be right. */
  OPTION(
      Code.INVALID_ARGUMENT,
      "An option of a command has a value that it cannot have",
      "see `./nccl COMMAND --help`; the message says what may be given"),
  /** Certificates that cannot be right. */
  CERTIFICATE(
      Code.INVALID_ARGUMENT,
      "The certificates or the key for TLS cannot be used, or some are not named",
      "set NCCL4J_TLS_CERT, NCCL4J_TLS_KEY and NCCL4J_TLS_CA to PEM files on all ranks, or none"),
  /** A name that nothing has. */
  NAME(
      Code.INVALID_ARGUMENT,
      "An algorithm, protocol, operation, transport, network or plug-in has no such name",
      "choose one of those that the message lists, or put its jar on the module path"),
  /** No unique id. */
  UNIQUE_ID(
      Code.INVALID_ARGUMENT,
      "Bytes or text are no unique id, or ids are passed twice or in wrong number",
      "pass on what UniqueId.create gave, unchanged, the same on all ranks"),
  /** Memory that cannot be a window. */
  WINDOW(
      Code.INVALID_ARGUMENT,
      "Memory cannot be registered: other ranks cannot map it, or the ranks' sizes or offsets"
          + " differ, or the windows' range is full",
      "register memory of Device.memAlloc, alike on all ranks; NCCL_WIN_STRIDE makes the range"
          + " larger"),
  /** {@link Code#INVALID_USAGE}, of another kind than those below. */
  USAGE(Code.INVALID_USAGE),
  /** Options of a command that do not fit. */
  OPTIONS(
      Code.INVALID_USAGE,
      "Options of a command do not go together, or not with this machine",
      "leave out or change those that the message names"),
  /** Something is used after close. */
  CLOSED(
      Code.INVALID_USAGE,
      "A communicator, a stream or memory is used after it was closed, or a communicator after"
          + " finish",
      "close it after its last use"),
  /** Ended by abort. */
  ABORTED(
      Code.INVALID_USAGE,
      "A rank aborted the communicator",
      "make a new one, of the ranks that are left with Communicator.shrink"),
  /** Ended by revoke. */
  REVOKED(
      Code.INVALID_USAGE,
      "A rank revoked the communicator, so that all come to shrink",
      "call Communicator.shrink, or close it"),
  /** Suspended. */
  SUSPENDED(
      Code.INVALID_USAGE,
      "A communicator is used while it is suspended, or cannot be suspended",
      "call resume on all ranks; deregister windows and close splits before suspend"),
  /** Ranks call different things. */
  CALLS_DIFFER(
      Code.INVALID_USAGE,
      "The ranks call different operations, or with different arguments; found as their data come",
      "make the same calls with the same arguments in the same order on all ranks, also those of"
          + " several threads"),
  /** Ranks use communicators in different order; {@link OrderMismatchException}. */
  ORDER_DIFFERS(
      Code.INVALID_USAGE,
      "The ranks use communicators in different order and would wait for each other for ever; found"
          + " with NCCL_CHECK_MODE=DEBUG_GLOBAL",
      "call operations of both in the same order on all ranks, or in streams of their own"),
  /** Ranks do not fit together. */
  RANKS_DIFFER(
      Code.INVALID_USAGE,
      "The ranks that meet disagree: another number of ranks, a number twice, other unique ids, or"
          + " another version of nccl4j",
      "start all ranks with the same program and arguments, each with a number of its own"),
  /** Ranks' settings do not fit together. */
  SETTINGS_DIFFER(
      Code.INVALID_USAGE,
      "Ranks come to different results because their settings or topology files differ",
      "give all ranks the same NCCL_ settings"),
  /** A topology that cannot be right. */
  TOPOLOGY(
      Code.INVALID_USAGE,
      "A topology or graph file does not fit this machine or its ranks",
      "name the file of this machine in NCCL_TOPO_FILE and NCCL_GRAPH_FILE, or unset them"),
  /** An order of reductions that cannot be kept. */
  DETERMINISM(
      Code.INVALID_USAGE,
      "A communicator cannot reduce in the order that NCCL4J_DETERMINISM asks for",
      "unset it or the algorithm that is forced; see docs/concepts/reduction-order.md"),
  /** Two ranks that nothing connects. */
  NO_TRANSPORT(
      Code.INVALID_USAGE,
      "No transport connects two ranks",
      "put the transports on the class path or module path, and look at what NCCL4J_TRANSPORTS,"
          + " NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_NET forbid"),
  /** Two ranks on a GPU. */
  SHARED_GPU(
      Code.INVALID_USAGE,
      "Two ranks use one GPU",
      "give each rank a GPU of its own, or set NCCL_MULTI_RANK_GPU_ENABLE=1"),
  /** A window or a registration at the wrong time. */
  HANDLE(
      Code.INVALID_USAGE,
      "A window or a registration is of another communicator, deregistered twice, still in use, or"
          + " used outside its life",
      "deregister each once, with the communicator that made it, after its last operation has"
          + " ended"),
  /** A capture that the library cannot put in order with other operations. */
  CAPTURE(
      Code.INVALID_USAGE,
      "An operation on connections that several communicators share is captured by other means than"
          + " CudaStream.beginCapture",
      "capture by CudaStream.beginCapture, or split with CommunicatorConfig.withSplitShare(false)"),
  /** A group at the wrong time. */
  GROUP(
      Code.INVALID_USAGE,
      "A group is ended or simulated where it cannot be, or a group inside it failed",
      "match each Group.start with one Group.end on the same thread, or use Group.run; correct the"
          + " inner group"),
  /** Sends to oneself. */
  SELF_SEND(
      Code.INVALID_USAGE,
      "A rank's sends to itself and its receives from itself do not match",
      "put each such send and its receive into one group, with the same count"),
  /** A time that is asked for too early. */
  NOT_HAPPENED(
      Code.INVALID_USAGE,
      "The time between two events is asked for before both have happened",
      "record both, and synchronize the later one first"),
  /** A function of the user's. */
  USER_FUNCTION(
      Code.INVALID_USAGE,
      "A reduction that the user supplies, or a function in a stream, threw an exception",
      "correct the function; its exception is the cause"),
  /** A plug-in. */
  PLUGIN(
      Code.INVALID_USAGE,
      "A transport, network, tuner or profiler breaks the rules of its interface",
      "tell its author, or take it off the module path"),
  /** An interrupted thread. */
  INTERRUPTED(
      Code.INVALID_USAGE,
      "A thread was interrupted while it waited for other ranks",
      "interrupt no thread that makes a communicator or exchanges with others; use deadlines"),
  /** Something that a device cannot. */
  UNSUPPORTED(
      Code.INVALID_USAGE,
      "A device, or this build, cannot do what is asked for",
      "use another type, operator or device; the message says which can"),
  /** {@link Code#REMOTE_ERROR}, of another kind than those below. */
  REMOTE(Code.REMOTE_ERROR),
  /** Another rank told of its failure. */
  RANK_FAILED(
      Code.REMOTE_ERROR,
      "Another rank failed and told why; its own error is the cause of this one",
      "look at the cause, and at that rank's output"),
  /** A process ended. */
  RANK_DIED(
      Code.REMOTE_ERROR,
      "The process of another rank, or of the bootstrap root, ended without closing",
      "look at its output and at the kernel's log (dmesg: out of memory); go on without it by"
          + " Communicator.shrink with ShrinkMode.ABORT"),
  /** A rank that left before others were done. */
  RANK_CLOSED(
      Code.REMOTE_ERROR,
      "Another rank closed its communicator, and this one has called an operation that it never"
          + " called",
      "look at that rank's output for the error that made it leave; call the same operations on all"
          + " ranks before closing"),
  /** A process gives no sign of life. */
  RANK_SILENT(
      Code.REMOTE_ERROR,
      "The process of another rank gives no sign of life: it is stopped, or its host or network is"
          + " gone",
      "look at that host; allow longer silence by NCCL4J_HEARTBEAT_TIMEOUT"),
  /** A connection of the network broke. */
  CONNECTION(
      Code.REMOTE_ERROR,
      "A connection over the network broke, or its other end has closed it",
      "look at the process and the network on the other side"),
  /** What another rank sent makes no sense. */
  PROTOCOL(
      Code.REMOTE_ERROR,
      "Another rank sent what this one does not understand or expect",
      "run the same version of nccl4j with the same settings on all ranks"),
  /** Memory of another rank. */
  PEER_MEMORY(
      Code.REMOTE_ERROR,
      "Memory of another rank cannot be opened in this process",
      "in containers share the host's IPC namespace (--ipc=host); load nccl4j once in a process"),
  /** {@link Code#TIMEOUT}, of another kind than those below. */
  TIMEOUT(Code.TIMEOUT),
  /** Ranks that do not come. */
  RANKS_MISSING(
      Code.TIMEOUT,
      "Ranks did not come to the making of a communicator, or to an exchange, in time",
      "look at why those that the message names did not start or make the same call, or allow more"
          + " time with NCCL4J_INIT_TIMEOUT"),
  /** Connections that do not come about. */
  NOT_CONNECTED(
      Code.TIMEOUT,
      "Two ranks that have met did not get a connection in time",
      "look at the other rank's log, or allow more time with NCCL4J_INIT_TIMEOUT"),
  /** An operation whose deadline passed. */
  OPERATION(
      Code.TIMEOUT,
      "An operation has waited for another rank until its deadline",
      "see what the rank that is behind is doing (jstack, `./nccl diagnose`), or allow more time"
          + " with NCCL4J_TIMEOUT; NCCL_CHECK_MODE=DEBUG_GLOBAL compares the ranks' collectives"),
  /** Operations that still run when they should have ended. */
  STILL_RUNNING(
      Code.TIMEOUT,
      "Operations had not ended when a communicator was closed or shrunk, or a stream's"
          + " synchronization had to end",
      "synchronize the streams first, or give it more time");

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

  /** As it is in messages and in docs/reference/errors.md; it never changes. */
  public String text() {
    return PREFIX + name().replace('_', '-');
  }

  /** The result code that it is one kind of. */
  public Code code() {
    return code;
  }

  /** What it means; no full stop at the end. */
  public String meaning() {
    return meaning;
  }

  /** What to do in general; no full stop at the end. */
  public String remedy() {
    return remedy;
  }
}
