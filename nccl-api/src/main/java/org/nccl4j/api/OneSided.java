package org.nccl4j.api;

import java.util.Map;
import org.nccl4j.api.group.Groups;
import org.nccl4j.api.group.RankQueue;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.Asked;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/**
 * Windows, and the operations into them that one rank calls without the other's taking part. What
 * all operations have in common is said at {@link Communicator}, which every object of this class
 * is.
 */
public abstract sealed class OneSided permits Operations {
  final CommunicatorState state;
  final RankQueue queue;

  OneSided(CommunicatorState state, RankQueue queue) {
    this.state = state;
    this.queue = queue;
  }

  /**
   * Registers memory of all ranks as a window: operations whose buffers lie in windows, on every
   * rank at the same offset, go without a copy; and other ranks may write into it ({@link
   * #putSignal}). Collective: every rank calls it, with as many bytes, in the same order, and it
   * returns once all have. In a {@link Group} it takes effect at the group's end, so that one
   * thread can register for several ranks.
   *
   * <p>An operation takes the way of windows only if its whole buffer lies in one; that must then
   * be so on all ranks. A buffer that is partly outside is like one without a window.
   *
   * @param memory from {@link Device#memAlloc}, or a slice of that; several windows may lie in one
   *     allocation
   * @throws InvalidArgumentException on all ranks, naming one: for memory that other ranks cannot
   *     map, sizes or offsets that differ between ranks, or no more room in the windows' range
   * @throws InvalidUsageException on all ranks: if they call different things
   */
  public Window registerWindow(DeviceMemory memory) {
    Groups.refuseWhereSimulated("registerWindow");
    Window window = new Window(state.name());
    Groups.meet(
        state.windows(), () -> window.complete(state.registerWindow(memory), state.windows()));
    return window;
  }

  /**
   * Ends the use of a window. Collective, as {@link #registerWindow}; the memory stays its owner's.
   * What is still registered when a communicator closes is deregistered then.
   *
   * @throws InvalidUsageException if it was deregistered before, or is of another communicator; on
   *     all ranks, if operations of any still use it: then it stays
   */
  public void deregisterWindow(Window window) {
    Groups.refuseWhereSimulated("deregisterWindow");
    RegisteredWindow registered = Given.notNull(window, "window").registered();
    if (!state.windows().has(registered)) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          registered.isDropped()
              ? "rank %d deregisters %s twice".formatted(state.rank(), window)
              : "rank %d deregisters %s in communicator %s"
                  .formatted(state.rank(), window, state.name()),
          "deregister each window once, with the communicator that registered it");
    }
    Groups.meet(state.windows(), () -> state.deregister(registered));
  }

  /**
   * Registers memory of this rank, so that collectives on it go without a copy where the ranks can
   * reach each other's memory; NCCL's ncclCommRegister. Not collective: returns at once.
   *
   * <p>As in NCCL, an operation's buffers are registered on all its ranks or on none, and lie at
   * the same offset in what is registered, which has the same size everywhere. The first operation
   * on it, outside the capture of a graph, waits for the other ranks, which make a window of it
   * together; so a thread that drives several ranks calls it in a {@link Group}. Where that cannot
   * be, for one rank's memory, the operations go as if nothing were registered, and {@link
   * Registration#obstacle} says why. Between machines it changes nothing: there data go through the
   * connections' own memory, which the network knows. A window does the same without that wait
   * ({@link #registerWindow}).
   *
   * @param memory from {@link Device#memAlloc}, or a slice of that, to be of any use; may be any
   * @throws InvalidArgumentException for null, no bytes, or memory of another device
   * @throws InvalidUsageException for closed memory
   */
  public Registration register(DeviceMemory memory) {
    return new Registration(state, state.register(memory));
  }

  /**
   * Ends the use of registered memory on this rank, which is the caller's again; NCCL's
   * ncclCommDeregister. Not collective. The other ranks' mapping of it goes when they have
   * deregistered too and register something else, or close. What is still registered when a
   * communicator closes is deregistered then.
   *
   * @throws InvalidUsageException if it is of another communicator, was deregistered before, or is
   *     used by operations that have not ended; and after close
   */
  public void deregister(Registration registration) {
    state.deregister(Given.notNull(registration, "registration").registered());
  }

  /**
   * What kernels of the user's own need beside windows. Collective, as {@link #registerWindow}, but
   * not in a group.
   *
   * @param barriers how many barriers of the team kernels will use, often one for each block
   * @param slots values of 8 bytes that a rank can send each other in one epoch of an LL all-to-all
   * @throws InvalidArgumentException on all ranks, naming one: for fewer than 0 or more than 4096
   *     of either, or numbers that differ between ranks
   * @throws InvalidUsageException in a group; on all ranks, if they call different things
   */
  public DeviceCommunicator createDeviceCommunicator(int barriers, int slots) {
    Groups.refuseInGroup("createDeviceCommunicator");
    return DeviceCommunicator.create(
        state.windows(), state.name(), state.rank(), new Asked(barriers, slots));
  }

  /**
   * Writes into a rank's window and then signals that rank, without its taking part. Ranks of other
   * machines are written to over the network: the data go through a connection of their own, and
   * the other side's proxy thread puts them into the window. Between GPUs of several machines it
   * cannot be captured into a graph.
   *
   * @param source what is written
   * @param count elements; 0 writes nothing and signals
   * @param peer whose window
   * @param window a window of this communicator
   * @param offset where in the peer's window, in bytes
   * @throws InvalidArgumentException if the data do not fit, the peer is no rank, or it is not in
   *     reach: on another machine, for communicators that share their parent's connections
   * @throws InvalidUsageException if the window is not this communicator's
   */
  public void putSignal(
      DeviceMemory source,
      long count,
      DataType type,
      int peer,
      Window window,
      long offset,
      DeviceStream stream) {
    RegisteredWindow registered = Given.notNull(window, "window").registered();
    state.oneSided().put(source, count, type, peer, registered, offset, stream);
  }

  /**
   * Signals a rank: after all that this rank has put to it before in the same stream.
   *
   * @throws InvalidUsageException before the first window is registered
   */
  public void signal(int peer, DeviceStream stream) {
    state.oneSided().signal(peer, stream);
  }

  /**
   * Lets a stream wait until ranks have signalled this one. Each signal is waited for once.
   *
   * @param signals how many signals of which ranks
   * @throws InvalidArgumentException for a peer that is no rank, or fewer than 1 signal
   * @throws InvalidUsageException before the first window is registered
   */
  public void waitSignal(Map<Integer, Integer> signals, DeviceStream stream) {
    state.oneSided().await(Given.notNull(signals, "signals to wait for"), stream);
  }
}
