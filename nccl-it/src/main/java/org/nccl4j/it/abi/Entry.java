package org.nccl4j.it.abi;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.stream.IntStream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.device.cuda.nvml.NvmlGpu;
import org.nccl4j.device.kernel.CallShape;

/**
 * The methods that the C side calls, by name and signature (jvm.c). Numbers are NCCL's. A result is
 * an ncclResult_t, or a handle, an address or a size, and then negative for an error. No method
 * throws. Any thread.
 */
final class Entry {
  static {
    Guest.begin();
  }

  private Entry() {}

  /** Returns the code of a failed call's error, which fails the thread's group too. */
  private static int failed(Throwable error) {
    OpenGroup.mine().fail(error);
    return Results.of(error);
  }

  /**
   * Fails the thread's group, if it has one open.
   *
   * @param refusal why the C side has refused a call of the group, with the remedy
   */
  static void failGroup(String refusal) {
    OpenGroup.mine().fail(Wrong.call(refusal));
  }

  /** The text of the thread's last error. */
  static String lastError() {
    return Results.last();
  }

  /** A new ncclUniqueId; null after an error. */
  static byte[] uniqueId() {
    try {
      return UniqueIds.create();
    } catch (Throwable e) {
      Results.of(e);
      return null;
    }
  }

  /**
   * Joins a communicator.
   *
   * @param gpu the thread's current GPU
   * @param ids one or more ncclUniqueIds
   * @param numbers of its configuration; null if the program has passed none
   * @param made takes the handle
   */
  static int initRank(
      int nRanks, int rank, int gpu, byte[] ids, int[] numbers, String[] names, long[] made) {
    try {
      Place place = Place.current(gpu);
      Config config = Config.of(numbers, names);
      List<UniqueId> all = UniqueIds.parseAll(ids);
      CallWarmUp.begin(place);
      return begun(
          RankHandle.of(
              place,
              config,
              Communicator.initRankAsync(nRanks, all, rank, place.device(), config.communicator())),
          made);
    } catch (Throwable e) {
      return failed(e);
    }
  }

  private static int begun(RankHandle handle, long[] made) {
    made[0] = handle.handle();
    try {
      return awaited(handle.creation(), handle.making(), handle.config());
    } catch (CompletionException e) {
      RankHandle.ALL.remove(handle.handle());
      throw e;
    }
  }

  private static int begun(RankHandle parent, RankHandle child, long[] made) {
    parent.expect(child);
    return begun(child, made);
  }

  /** Waits for a creation's end, unless a group's end does or the communicator does not block. */
  private static int awaited(
      CompletableFuture<?> creation, CompletableFuture<?> end, Config config) {
    OpenGroup group = OpenGroup.mine();
    if (group.isOpen()) {
      group.add(creation, end, config.blocking());
    } else if (config.blocking()) {
      end.join();
    }
    return config.blocking() ? Results.SUCCESS : Results.IN_PROGRESS;
  }

  /** Creates a communicator of GPUs of this process; fills in the handles. */
  static int initAll(int[] gpus, int[] numbers, String[] names, long[] handles) {
    try {
      Config config = Config.of(numbers, names);
      List<Place> places = IntStream.of(gpus).mapToObj(Place::current).toList();
      CallWarmUp.begin(places.get(0));
      List<Communicator> made =
          Communicator.initAll(places.stream().map(Place::device).toList(), config.communicator());
      List<RankHandle> all = new ArrayList<>();
      for (int rank = 0; rank < handles.length; rank++) {
        CompletableFuture<Communicator> done = CompletableFuture.completedFuture(made.get(rank));
        all.add(RankHandle.of(places.get(rank), config, done));
        handles[rank] = all.get(rank).handle();
      }
      awaitAll(all);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /** All are there, or none is. */
  private static void awaitAll(List<RankHandle> all) {
    try {
      all.forEach(each -> each.making().join());
    } catch (CompletionException e) {
      all.forEach(each -> each.close(/* abort= */ true));
      throw e;
    }
  }

  /**
   * Splits a communicator.
   *
   * @param made takes the handle, 0 for a rank without a color
   */
  static int split(long comm, int color, int key, int[] numbers, String[] names, long[] made) {
    try {
      RankHandle parent = RankHandle.find(comm);
      Config config = Config.of(numbers, names, parent.config());
      CompletableFuture<Optional<Communicator>> creation =
          parent.communicator().splitAsync(color, key, config.communicator());
      if (color == Communicator.NO_COLOR) {
        parent.expect(creation, config);
        return awaited(creation, creation, config);
      }
      return begun(
          parent, RankHandle.of(parent.place(), config, creation, Optional::orElseThrow), made);
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /** Creates a communicator without some ranks. */
  static int shrink(
      long comm, int[] excluded, boolean abort, int[] numbers, String[] names, long[] made) {
    try {
      RankHandle parent = RankHandle.find(comm);
      Config config = Config.of(numbers, names, parent.config());
      Set<Integer> without = new HashSet<>();
      IntStream.of(excluded).forEach(without::add);
      Communicator.ShrinkMode mode =
          abort ? Communicator.ShrinkMode.ABORT : Communicator.ShrinkMode.WAIT;
      return begun(
          parent,
          RankHandle.of(
              parent.place(),
              config,
              parent.communicator().shrinkAsync(without, mode, config.communicator())),
          made);
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /**
   * Creates a communicator of a communicator's ranks and of new ones, which join by {@link
   * #initRank}.
   *
   * @param id an ncclUniqueId on one rank, null on the others
   */
  static int grow(long comm, int nRanks, byte[] id, int[] numbers, String[] names, long[] made) {
    try {
      RankHandle parent = RankHandle.find(comm);
      Config config = Config.of(numbers, names, parent.config());
      UniqueId known = id == null ? null : UniqueIds.parse(id);
      return begun(
          parent,
          RankHandle.of(
              parent.place(),
              config,
              parent.communicator().growAsync(nRanks, known, config.communicator())),
          made);
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /** Finalizes a communicator: its operations end. */
  static int finish(long comm) {
    try {
      RankHandle handle = RankHandle.find(comm);
      CompletableFuture<Void> end = handle.finish();
      if (!handle.config().blocking()) {
        return Results.IN_PROGRESS;
      }
      end.join();
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /** Destroys a communicator, after its operations or instead of them. */
  static int close(long comm, boolean abort) {
    try {
      RankHandle.find(comm).close(abort);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return Results.of(e);
    }
  }

  /** Closes what the program has not destroyed, at the end of the process. */
  static int depart() {
    try {
      RankHandle.ALL.all().forEach(RankHandle::depart);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return Results.of(e);
    }
  }

  /** Ends all operations of all ranks. */
  static int revoke(long comm) {
    try {
      RankHandle handle = RankHandle.find(comm);
      CompletableFuture<Void> end = handle.revoke();
      if (!handle.config().blocking()) {
        return Results.IN_PROGRESS;
      }
      end.join();
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /** Frees a communicator's device memory, or allocates it again; in a group, its end does. */
  static int suspend(long comm, boolean begins) {
    try {
      RankHandle handle = RankHandle.find(comm);
      Communicator communicator = handle.communicator();
      Runnable call = begins ? communicator::suspend : communicator::resume;
      OpenGroup group = OpenGroup.mine();
      if (group.isOpen()) {
        group.add(handle, call);
      } else {
        call.run();
      }
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /** The result of the creation and of the operations so far; negative for a bad handle. */
  static int asyncError(long comm) {
    try {
      RankHandle handle = RankHandle.find(comm);
      if (handle.isInProgress()) {
        return Results.IN_PROGRESS;
      }
      Optional<NcclException> failure = handle.failure();
      return failure.isEmpty() ? Results.SUCCESS : Results.of(failure.get());
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  /** Fills in the number of ranks, the rank, the number of the GPU and the LSA team's size. */
  static int numbers(long comm, int[] numbers) {
    try {
      Communicator communicator = RankHandle.find(comm).communicator();
      numbers[0] = communicator.nRanks();
      numbers[1] = communicator.rank();
      numbers[2] = communicator.device().index();
      numbers[3] = communicator.lsaTeam().size();
      return Results.SUCCESS;
    } catch (Throwable e) {
      return Results.of(e);
    }
  }

  /**
   * The number that the management library gives the GPU, which unlike CUDA's does not depend on
   * CUDA_VISIBLE_DEVICES; CUDA's where there is none.
   */
  static int nvmlIndex(long comm) {
    try {
      Device device = RankHandle.find(comm).communicator().device();
      return device instanceof CudaDevice gpu
          ? Nvml.probe().gpu(gpu.pciBusId()).map(NvmlGpu::index).orElse(gpu.index())
          : device.index();
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  /** Bytes of device memory, by an ncclCommMemStat_t. */
  static long memory(long comm, int statistic) {
    try {
      Communicator communicator = RankHandle.find(comm).communicator();
      boolean suspended = communicator.isSuspended();
      long bytes = communicator.memory().values().stream().mapToLong(Long::longValue).sum();
      return switch (statistic) {
        case 0, 3 -> bytes;
        case 1 -> suspended ? 1 : 0;
        case 2 -> 0;
        default ->
            throw Wrong.argument(
                statistic + " is not a statistic of memory", "pass an ncclCommMemStat_t");
      };
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  /**
   * Launches an operation.
   *
   * @param shape as {@link CallShape} has it
   */
  @HotPath
  static int launch(long comm, long shape, long send, long recv, long count, long stream) {
    try {
      RankHandle.find(comm).launch(shape, send, recv, count, stream);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /** Launches an operation with an operator of {@link #preMulSum}. */
  static int launchWith(
      int operator, long comm, long shape, long send, long recv, long count, long stream) {
    try {
      RankHandle handle = RankHandle.find(comm);
      handle.launch(Operators.find(handle, operator), shape, send, recv, count, stream);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  static int preMulSum(long comm, int type, long scalar, int residence) {
    try {
      RankHandle handle = RankHandle.find(comm);
      return Operators.add(handle, DataType.values()[type], scalar, residence);
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  static int dropOperator(long comm, int operator) {
    try {
      Operators.remove(RankHandle.find(comm), operator);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return Results.of(e);
    }
  }

  static int groupStart() {
    try {
      Group.start();
      return Results.SUCCESS;
    } catch (Throwable e) {
      return Results.of(e);
    }
  }

  static int groupEnd() {
    try {
      return OpenGroup.mine().end() ? Results.IN_PROGRESS : Results.SUCCESS;
    } catch (Throwable e) {
      return Results.of(e);
    }
  }

  /** Predicted microseconds of the group, which is not launched. */
  static double groupSimulate() {
    try {
      return OpenGroup.mine().simulate();
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  static long allocate(int gpu, long bytes) {
    try {
      return Allocations.allocate(Place.current(gpu), bytes);
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  static int free(long address) {
    try {
      Allocations.free(address);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return Results.of(e);
    }
  }

  /**
   * Registers memory as a window of all ranks, or for this rank alone.
   *
   * @param symmetric whether a window's buffers lie at the same offset on all ranks
   */
  static long register(long comm, long address, long bytes, boolean window, boolean symmetric) {
    try {
      RankHandle owner = RankHandle.find(comm);
      return window
          ? WindowHandle.register(owner, address, bytes, symmetric)
          : WindowHandle.registerLocal(owner, address, bytes);
    } catch (Throwable e) {
      return -(window ? failed(e) : Results.of(e));
    }
  }

  static int deregister(long comm, long handle, boolean window) {
    try {
      RankHandle owner = RankHandle.find(comm);
      if (window) {
        WindowHandle.deregister(owner, handle);
      } else {
        WindowHandle.deregisterLocal(owner, handle);
      }
      return Results.SUCCESS;
    } catch (Throwable e) {
      return window ? failed(e) : Results.of(e);
    }
  }

  /** The address that was registered as a window. */
  static long windowAddress(long window) {
    try {
      return WindowHandle.address(window);
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  /**
   * An address in another rank's part of a window; 0 for a peer of another machine.
   *
   * @param local true if the peer is a number among the ranks of this machine
   */
  static long peerAddress(long window, long offset, int peer, boolean local) {
    try {
      return local
          ? WindowHandle.localAddress(window, peer, offset)
          : WindowHandle.peerAddress(window, peer, offset);
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  /** An address at which a window's parts of all ranks are reached at once; 0 if there is none. */
  static long multicastAddress(long window, long offset) {
    try {
      return WindowHandle.multicastAddress(window, offset);
    } catch (Throwable e) {
      return -Results.of(e);
    }
  }

  /**
   * Writes into a peer's window and signals it.
   *
   * @param shape with the type, and the peer as root
   * @param offset the place in the peer's part of the window
   */
  @HotPath
  static int put(
      long comm, long shape, long source, long count, long window, long offset, long stream) {
    try {
      RankHandle handle = RankHandle.find(comm);
      Communicator communicator = handle.communicator();
      DataType type = CallShape.type(shape);
      DeviceStream in = handle.stream(stream);
      communicator.putSignal(
          handle.place().memory().of(source, RankHandle.bytes(count, type.bytes())),
          count,
          type,
          CallShape.root(shape),
          WindowHandle.window(window),
          offset,
          in);
      handle.finish(in);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  @HotPath
  static int signal(long comm, int peer, long stream) {
    try {
      RankHandle handle = RankHandle.find(comm);
      DeviceStream in = handle.streamOfMade(stream);
      handle.communicator().signal(peer, in);
      handle.finish(in);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /**
   * Has a stream wait for signals.
   *
   * @param signals address of the number and the peer of each, which are ints
   * @param n how many
   */
  @HotPath
  static int waitSignal(long comm, long signals, int n, long stream) {
    try {
      RankHandle handle = RankHandle.find(comm);
      AwaitedPairs awaited = handle.awaited(signals, n);
      DeviceStream in = handle.streamOfMade(stream);
      handle.communicator().waitSignal(awaited.byPeer(), in);
      handle.finish(in);
      return Results.SUCCESS;
    } catch (Throwable e) {
      return failed(e);
    }
  }

  /**
   * The value of a setting.
   *
   * @param parts takes its text, and a second text if it is a number or a flag
   */
  static int parameter(String name, String[] parts) {
    try {
      Parameters.Value value = Parameters.value(name);
      parts[0] = value.text();
      parts[1] = value.isNumber() ? name : null;
      return Results.SUCCESS;
    } catch (Throwable e) {
      return Results.of(e);
    }
  }

  /** The names of all settings. */
  static String[] parameters() {
    return Parameters.names();
  }
}
