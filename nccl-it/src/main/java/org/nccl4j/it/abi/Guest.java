package org.nccl4j.it.abi;

import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
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

/** Keeps the library from disturbing the program whose process it shares. */
final class Guest {
  /** Set by the C side if it has started the JVM. */
  private static final String OWN_JVM = "nccl4j.jvm.own";

  private static final int WARM_CALLS = 12_000;

  /** Kept, since loggers that nobody refers to lose their level. */
  private static final Logger LOGGER = Logger.getLogger("org.nccl4j");

  private static final AtomicBoolean WARMED = new AtomicBoolean();
  private static final AtomicBoolean PREPARED = new AtomicBoolean();

  private Guest() {}

  /** Writes warnings only if the user has set NCCL_DEBUG, as NCCL does; not in a user's JVM. */
  static void begin() {
    boolean silent =
        switch (Settings.ofProcess(Map.of()).get(DebugSettings.NCCL_DEBUG)) {
          case "NONE", "VERSION" -> true;
          default -> false;
        };
    if (Boolean.getBoolean(OWN_JVM) && silent) {
      LOGGER.setLevel(Level.OFF);
    }
  }

  /**
   * Has the JVM compile the methods of a call, once in a process, while a communicator is being
   * created: calls them with a communicator of one rank on the host.
   */
  static void warmUp() {
    if (WARMED.compareAndSet(false, true)) {
      Thread thread = new Thread(Guest::call, "nccl4j-warm-up");
      thread.setDaemon(true);
      thread.start();
    }
  }

  /**
   * Has a process's first communicator load what its first calls need, so that they do not wait for
   * it: the cost model, and the driver's functions for captures.
   */
  static void prepare(Communicator communicator) {
    if (PREPARED.compareAndSet(false, true)) {
      try (DeviceStream stream = communicator.device().createStream()) {
        if (stream instanceof CudaStream gpus) {
          Offheap scratch = new Offheap(CaptureLibrary.SCRATCH_BYTES);
          CaptureLibrary.capture(gpus.handle(), scratch, gpus.device());
        }
        for (Operation operation : Operation.collectives()) {
          communicator.chosenAlgorithm(operation.key(), 1, DataType.FLOAT32);
        }
      } catch (NcclException e) {
        LOGGER.log(Level.FINE, "the first call is not prepared", e);
      }
    }
  }

  private static void call() {
    CommunicatorConfig alone =
        CommunicatorConfig.defaults()
            .withName("warm-up")
            .with(Settings.NCCL_PROFILER_PLUGIN.name(), "none");
    try (Communicator communicator = Communicator.initAll(List.of(Devices.host()), alone).get(0);
        DeviceMemory memory = Devices.host().memAlloc(Long.BYTES)) {
      Warmed warmed = new Warmed(RankHandle.warm(communicator), memory.address());
      try {
        warmed.run();
      } finally {
        RankHandle.ALL.remove(warmed.handle.handle());
      }
    } catch (NcclException e) {
      LOGGER.log(Level.FINE, "calls are not warmed up", e);
    }
  }

  /** Calls on the throw-away communicator. */
  private record Warmed(RankHandle handle, long address) {
    @HotPath
    void run() {
      for (int call = 0; call < WARM_CALLS; call++) {
        launch(Operation.ALL_REDUCE, 1);
        if (call % 8 == 0) {
          launch(Operation.ALL_GATHER, 1);
          launch(Operation.REDUCE_SCATTER, 1);
          launch(Operation.BROADCAST, 1);
        }
      }
    }

    @HotPath
    private void launch(Operation operation, long count) {
      long shape = CallShape.of(operation, DataType.INT32, RedOp.SUM, 0);
      Entry.launch(handle.handle(), shape, address, address, count, 0);
    }
  }
}
