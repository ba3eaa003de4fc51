package org.nccl4j.api;

import java.util.Map;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.Asked;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/**
 * Windows, and the operations on them that one rank calls without the other rank's participation.
 * {@link Communicator} describes their common rules.
 */
public abstract sealed class OneSided permits Operations {
  final CommunicatorState state;
  final OperationDispatcher queue;

  OneSided(CommunicatorState state, OperationDispatcher queue) {
    this.state = state;
    this.queue = queue;
  }

  /**
   * Registers memory of all ranks as a window. Operations whose buffers lie in windows, on every
   * rank at the same offset, move data directly between the buffers, and other ranks may write into
   * the window ({@link #putSignal}). Collective: every rank calls it, with the same number of
   * bytes, in the same order; it returns when all ranks have called it. In a {@link Group} it takes
   * effect at the end of the group, so that one thread can register for several ranks.
   *
   * <p>An operation uses windows only if its whole buffer lies in one, which must then be so on all
   * ranks. A buffer that is partly outside counts as a buffer without a window.
   *
   * @param memory from {@link Device#memAlloc}, or a slice of such memory; several windows may lie
   *     in one allocation
   * @throws InvalidArgumentException on all ranks, naming one rank: for memory that other ranks
   *     cannot map, sizes or offsets that differ between ranks, or a full range of windows
   * @throws InvalidUsageException on all ranks: if their calls differ
   */
  public Window registerWindow(DeviceMemory memory) {
    GroupScope.refuseWhereSimulated("registerWindow");
    Window window = new Window(state.name());
    GroupScope.meet(
        state.windows(), () -> window.complete(state.registerWindow(memory), state.windows()));
    return window;
  }

  /**
   * Ends the use of a window. Collective, as {@link #registerWindow}. The memory stays its owner's.
   * The close of a communicator deregisters its remaining windows.
   *
   * @throws InvalidUsageException if the window was deregistered before, or belongs to another
   *     communicator; on all ranks, if operations of a rank still use it: then it stays registered
   */
  public void deregisterWindow(Window window) {
    GroupScope.refuseWhereSimulated("deregisterWindow");
    RegisteredWindow registered = Arguments.notNull(window, "window").registered();
    if (!state.windows().has(registered)) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          registered.isDropped()
              ? "rank %d deregisters %s twice".formatted(state.rank(), window)
              : "rank %d deregisters %s in communicator %s"
                  .formatted(state.rank(), window, state.name()),
          "deregister each window once, with the communicator that registered it");
    }
    GroupScope.meet(state.windows(), () -> state.deregister(registered));
  }

  /**
   * Registers memory of this rank, so that collectives on it need no copy if the ranks can access
   * each other's memory. Corresponds to ncclCommRegister. Not collective: returns at once.
   *
   * <p>As in NCCL, register an operation's buffers on all its ranks or on none, at the same offset
   * in registered memory of the same size. The first operation on it, outside the capture of a
   * graph, waits for the other ranks, which make a window of it together. So a thread that drives
   * several ranks calls that operation in a {@link Group}. If one rank's memory cannot be used,
   * operations work as if nothing were registered, and {@link Registration#obstacle} gives the
   * reason. Registering has no effect between machines: data for a network go through the
   * connections' own memory, which the network knows. A window does the same without that wait
   * ({@link #registerWindow}).
   *
   * @param memory from {@link Device#memAlloc}, or a slice of such memory; other memory is accepted
   *     without effect
   * @throws InvalidArgumentException for null, no bytes, or memory of another device
   * @throws InvalidUsageException for closed memory
   */
  public Registration register(DeviceMemory memory) {
    return new Registration(state, state.register(memory));
  }

  /**
   * Ends the use of registered memory on this rank; the memory is the caller's again. Corresponds
   * to ncclCommDeregister. Not collective. The other ranks unmap it when they have deregistered too
   * and register other memory, or close. The close of a communicator deregisters its remaining
   * memory.
   *
   * @throws InvalidUsageException if it belongs to another communicator, was deregistered before,
   *     or is used by operations that have not ended; and after close
   */
  public void deregister(Registration registration) {
    state.deregister(Arguments.notNull(registration, "registration").registered());
  }

  /**
   * Creates the barriers and slots that the user's own kernels need besides windows. Collective, as
   * {@link #registerWindow}, but not in a group.
   *
   * @param barriers the number of barriers of the team, often one for each block
   * @param slots values of 8 bytes that a rank can send to each other rank in one epoch of an LL
   *     all-to-all
   * @throws InvalidArgumentException on all ranks, naming one rank: for fewer than 0 or more than
   *     4096 of either, or numbers that differ between ranks
   * @throws InvalidUsageException in a group; on all ranks, if their calls differ
   */
  public DeviceCommunicator createDeviceCommunicator(int barriers, int slots) {
    GroupScope.refuseInGroup("createDeviceCommunicator");
    return DeviceCommunicator.create(
        state.windows(), state.name(), state.rank(), new Asked(barriers, slots));
  }

  /**
   * Writes into a rank's window and then signals that rank, without its participation. To ranks of
   * other machines the data go over the network: through a separate connection, whose receiving
   * proxy thread copies them into the window. Between GPUs of several machines the call cannot be
   * captured into a graph.
   *
   * @param source the data
   * @param count elements; with 0 it only signals
   * @param peer the rank of the window
   * @param window a window of this communicator
   * @param offset the place in the peer's window, in bytes
   * @throws InvalidArgumentException if the data do not fit, the peer is not a rank, or the peer
   *     cannot be reached: it is on another machine and the communicator shares its parent's
   *     connections
   * @throws InvalidUsageException if the window belongs to another communicator
   */
  public void putSignal(
      DeviceMemory source,
      long count,
      DataType type,
      int peer,
      Window window,
      long offset,
      DeviceStream stream) {
    RegisteredWindow registered = Arguments.notNull(window, "window").registered();
    state.oneSided().put(source, count, type, peer, registered, offset, stream);
  }

  /**
   * Signals a rank, after all puts of this rank to it before in the same stream.
   *
   * @throws InvalidUsageException before the first window is registered
   */
  public void signal(int peer, DeviceStream stream) {
    state.oneSided().signal(peer, stream);
  }

  /**
   * Lets a stream wait until ranks have signalled this rank. A signal ends one wait.
   *
   * @param signals the number of signals for each rank
   * @throws InvalidArgumentException for an invalid rank, or fewer than 1 signal
   * @throws InvalidUsageException before the first window is registered
   */
  public void waitSignal(Map<Integer, Integer> signals, DeviceStream stream) {
    state.oneSided().await(Arguments.notNull(signals, "signals to wait for"), stream);
  }
}
