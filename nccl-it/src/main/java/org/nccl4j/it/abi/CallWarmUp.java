package org.nccl4j.it.abi;

import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.init.ahead.WarmUpCalls;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.device.cuda.driver.CaptureLibrary;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/** Calls operations before the program does, so that its first calls find compiled code. */
final class CallWarmUp {
  private static final System.Logger LOG = DebugLog.of("INIT");

  /**
   * Rounds of warm calls: enough for the JVM to compile each method of a call by its quick compiler
   * (-XX:Tier3InvocationThreshold is 200), and too few for its optimizing one (jvm.c sets its
   * thresholds, above what the warm-up reaches). That one leaves out the branches that a method has
   * not taken, and a communicator of one rank does not take those of several: the first calls of a
   * program would run into them, and be interpreted again.
   */
  private static final int WARM_ROUNDS = 800;

  private static final int ROUNDS_OF_A_PLAN = 16;

  /** The warm-up has ended when so many rounds in a row were quick, a pause before each. */
  private static final int QUICK_ROUNDS = 8;

  private static final long PAUSE_NANOS = 1_000_000;

  /** Longest time that it waits for them. */
  private static final long SETTLING_NANOS = 250_000_000;

  private static final long WARM_BYTES =
      Integer.BYTES * (1 + (long) WARM_ROUNDS / ROUNDS_OF_A_PLAN);
  private static final List<Operation> CALLED =
      List.of(
          Operation.ALL_REDUCE,
          Operation.ALL_GATHER,
          Operation.REDUCE_SCATTER,
          Operation.BROADCAST);

  /** Operations that programs call less often: enough rounds for the methods of their own. */
  private static final List<Operation> ALSO_CALLED =
      List.of(Operation.REDUCE, Operation.ALL_TO_ALL, Operation.GATHER, Operation.SCATTER);

  private static final int ROUNDS_OF_OTHERS = 32;
  private static final long SCALAR = Float.floatToRawIntBits(2);
  private static final int HOST_SCALAR = 1; // ncclScalarHostImmediate
  private static final List<Long> PLANNED_COUNTS = List.of(1L, 1L << 20);

  private static final AtomicBoolean WARMED = new AtomicBoolean();
  private static final AtomicBoolean PREPARED = new AtomicBoolean();

  /** Completed when the warm-up, which takes about 0.4 s, has ended and has freed what it used. */
  private static final CompletableFuture<Void> WARM = new CompletableFuture<>();

  private CallWarmUp() {}

  /**
   * Has the JVM load, link and compile what a call needs, once in a process, while a communicator
   * is being created: calls on a communicator of one rank of the same device.
   */
  static void begin(Place place) {
    if (WARMED.compareAndSet(false, true)) {
      Thread thread = new Thread(() -> call(place), "nccl4j-warm-up");
      thread.setDaemon(true);
      WarmUpCalls.begin(WARM);
      try {
        thread.start();
      } catch (OutOfMemoryError e) {
        WARM.complete(null);
        LOG.log(
            Level.DEBUG, "no thread can be started for the warm-up: first calls take longer", e);
      }
    }
  }

  /**
   * Has a process's first communicator load what its first calls need, so that they do not wait for
   * it: the cost model, plans, and the driver's functions for captures. Each communicator waits for
   * the end of the warm-up. Else the program's calls would run into methods that are not compiled
   * yet, and wait in the driver for the warm-up's; and kernels that wait for another rank of this
   * process would hold up the freeing of the warm-up's memory, and so that rank.
   */
  static void prepare(Communicator communicator) {
    if (PREPARED.compareAndSet(false, true)) {
      try (DeviceStream stream = communicator.device().createStream()) {
        if (stream instanceof CudaStream gpus) {
          Offheap scratch = new Offheap(CaptureLibrary.SCRATCH_BYTES);
          CaptureLibrary.capture(gpus.handle(), scratch, gpus.device());
        }
        for (Operation operation : Operation.collectives()) {
          communicator.chosenAlgorithm(operation, 1, DataType.FLOAT32);
        }
        for (Operation operation : CALLED) {
          for (long count : PLANNED_COUNTS) {
            communicator.prepare(operation, count, DataType.FLOAT32);
          }
        }
      } catch (NcclException e) {
        LOG.log(Level.DEBUG, "the first call is not prepared", e);
      }
    }
    WarmUpCalls.await();
  }

  private static void call(Place place) {
    CommunicatorConfig alone =
        CommunicatorConfig.defaults()
            .withName("warm-up")
            .with(Settings.NCCL_PROFILER_PLUGIN.name(), "none");
    Device device = place.device();
    try (Communicator communicator = Communicator.initAll(List.of(device), alone).get(0);
        DeviceMemory memory = device.allocate(2 * WARM_BYTES);
        DeviceStream stream = device.createStream()) {
      RankHandle handle = RankHandle.warm(communicator);
      try {
        new Warmed(handle, memory.address(), place.isHost() ? 0 : ((CudaStream) stream).handle())
            .runUntilQuick();
        stream.synchronize();
      } finally {
        RankHandle.ALL.remove(handle.handle());
      }
    } catch (NcclException e) {
      LOG.log(Level.DEBUG, "calls are not warmed up", e);
    } finally {
      WARM.complete(null);
    }
  }

  /** Calls on the throw-away communicator, with new plans among them. */
  private record Warmed(RankHandle handle, long address, long stream) {
    /**
     * Calls until methods are compiled, and goes on until the compiled ones have run: a compiled
     * method looks up each method that it calls at its first call, for some microseconds each. In
     * the pauses the compiler ends what it was asked for.
     */
    void runUntilQuick() {
      run();
      long begin = System.nanoTime();
      long least = Long.MAX_VALUE;
      for (int quick = 0; quick < QUICK_ROUNDS; ) {
        long paused = System.nanoTime();
        if (paused - begin > SETTLING_NANOS) {
          return;
        }
        while (System.nanoTime() - paused < PAUSE_NANOS) {
          Thread.yield();
        }
        long called = System.nanoTime();
        for (Operation operation : CALLED) {
          copy(operation, 1);
        }
        long took = System.nanoTime() - called;
        least = Math.min(least, took);
        quick = took < 2 * least ? quick + 1 : 0;
      }
    }

    @HotPath
    private void run() {
      for (int round = 0; round < WARM_ROUNDS; round++) {
        long count = 1 + round / ROUNDS_OF_A_PLAN;
        launch(Operation.ALL_REDUCE, address, count);
        copy(CALLED.get(round % CALLED.size()), count);
        if (round % ROUNDS_OF_A_PLAN == 0) {
          Entry.groupStart();
          copy(Operation.ALL_REDUCE, count);
          Entry.groupEnd();
        }
        if (round % ROUNDS_OF_OTHERS == 0) {
          callOthers(count);
        }
      }
    }

    /** Calls of pipelines, of experts, and of averages of gradients. */
    private void callOthers(long count) {
      for (Operation operation : ALSO_CALLED) {
        launch(operation, address + WARM_BYTES, count);
      }
      Entry.groupStart();
      launch(Operation.SEND, 0, count);
      launch(Operation.RECV, address + WARM_BYTES, count);
      Entry.groupEnd();
      long comm = handle.handle();
      int operator = Entry.preMulSum(comm, DataType.FLOAT32.ordinal(), SCALAR, HOST_SCALAR);
      long shape = CallShape.of(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0);
      Entry.launchWith(operator, comm, shape, address, address + WARM_BYTES, count, stream);
      Entry.dropOperator(comm, operator);
    }

    /**
     * A call and the same again, which takes a shorter way. Out of place: on a GPU this launches a
     * kernel, as operations of several ranks do.
     */
    @HotPath
    private void copy(Operation operation, long count) {
      launch(operation, address + WARM_BYTES, count);
      launch(operation, address + WARM_BYTES, count);
    }

    @HotPath
    private void launch(Operation operation, long to, long count) {
      Entry.launch(handle.handle(), shape(operation), address, to, count, stream);
    }

    @HotPath
    private static long shape(Operation operation) {
      return CallShape.of(operation, DataType.INT32, RedOp.SUM, 0);
    }
  }
}
