package org.nccl4j.api.group;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/** The memory of compared calls. */
class CallConsistencyCheckTest {
  /** Keeps host functions, which a test runs as a launch of a graph does. */
  private static final class CapturedStream extends DeviceStream {
    private final List<Runnable> functions = new ArrayList<>();
    private boolean captures;

    CapturedStream() {
      super(null);
    }

    @Override
    public Device device() {
      return HostDevice.instance();
    }

    @Override
    public boolean isCapturing() {
      return captures;
    }

    @Override
    public void launchHostFunction(Runnable function) {
      functions.add(function);
    }

    @Override
    public void synchronize() {}

    @Override
    public void synchronize(Duration patience) {}

    @Override
    public boolean isIdle() {
      return true;
    }

    @Override
    public void record(DeviceEvent event) {}

    @Override
    public void await(DeviceEvent event) {}

    @Override
    public void copy(DeviceMemory source, DeviceMemory target) {}

    @Override
    public void close() {}
  }

  /** A graph's call keeps its memory, however often the graph is launched. */
  @Test
  void callsOfAGraphShareNoMemoryWithOthers() {
    FakeKernels kernels = new FakeKernels();
    kernels.abort(new InternalErrorException("no rank says anything", "none"));
    CallConsistencyCheck check =
        new CallConsistencyCheck(
            "c",
            1,
            kernels,
            new Launcher(kernels, Duration.ofSeconds(1)),
            HostDevice.instance(),
            2);
    CapturedStream stream = new CapturedStream();
    long shape = CallShape.of(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0);
    stream.captures = true;
    check.launch(shape, 1, Planner.Placement.NONE, stream);
    stream.captures = false;
    for (int launch = 0; launch < 3; launch++) {
      stream.functions.get(0).run();
    }
    check.launch(shape, 2, Planner.Placement.NONE, stream);
    check.launch(shape, 3, Planner.Placement.NONE, stream);
    assertEquals(3, memories(kernels).size());
    stream.functions.get(1).run();
    check.launch(shape, 4, Planner.Placement.NONE, stream);
    assertEquals(3, memories(kernels).size(), "the memory of a call that has ended is used again");
    check.close();
  }

  private static Set<DeviceMemory> memories(FakeKernels kernels) {
    Set<DeviceMemory> different = Collections.newSetFromMap(new IdentityHashMap<>());
    kernels.launches.forEach(launch -> different.add(launch.send()));
    return different;
  }
}
