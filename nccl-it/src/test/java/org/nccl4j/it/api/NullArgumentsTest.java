package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.DeviceCommunicator;
import org.nccl4j.api.DeviceCommunicator.Requirements;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.LaunchEnvironment;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/**
 * Null in the place of any argument of any public method is refused by name with a remedy, unless
 * the method says that it may be null, and changes nothing.
 */
@Timeout(600)
class NullArgumentsTest {
  /** A method and the number of a parameter of it that may be null. */
  private static final Set<String> ALLOWED =
      Set.of(
          "allGatherV 3",
          "allToAllV 2",
          "allToAllV 5",
          "gatherV 3",
          "scatterV 3",
          "grow 1",
          "growAsync 1");

  private final List<String> wrong = new ArrayList<>();
  private int tried;

  @Test
  void isRefusedByName() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(4096);
                DeviceEvent event = Devices.host().createEvent();
                DeviceCommunicator kernels =
                    comm.createDeviceCommunicator(
                        Requirements.defaults().withBarriers(1).withSlots(1).withSignals(1))) {
              Window window = comm.registerWindow(memory);
              PublicCalls calls = new PublicCalls(comm.rank(), memory, stream);
              calls.put(event);
              calls.put(comm, window, comm.register(memory));
              calls.put(
                  new DeviceCommunicator.Put(0, window, 0, window, 0, 1),
                  new DeviceCommunicator.Get(0, window, 0, window, 0, 1));
              everyNull(calls, Communicator.class, comm);
              everyNull(calls, Window.class, window);
              everyNull(calls, DeviceCommunicator.class, kernels);
              everyNull(calls, DeviceMemory.class, memory);
              everyNull(calls, DeviceStream.class, stream);
              everyNull(calls, DeviceEvent.class, event);
              everyNull(calls, Device.class, Devices.host());
              everyNull(calls, CommunicatorConfig.class, CommunicatorConfig.defaults());
              everyNull(calls, CallOptions.class, CallOptions.defaults());
              for (Class<?> statics :
                  List.of(
                      Group.class,
                      Devices.class,
                      UniqueId.class,
                      LaunchEnvironment.class,
                      ReductionOperator.class)) {
                everyNull(calls, statics, null);
              }
              try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
                comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
                stream.synchronize();
                assertEquals(2f, Ranks.floats(data)[15]);
              }
            }
          });
    }
    assertEquals(List.of(), wrong);
    assertTrue(tried > 2 * 150, tried + " calls were tried");
  }

  private void everyNull(PublicCalls calls, Class<?> type, Object target) {
    for (PublicCalls.Call call : calls.of(type, target)) {
      Class<?>[] types = call.method().getParameterTypes();
      for (int p = 0; p < types.length; p++) {
        if (!types[p].isPrimitive() && !ALLOWED.contains(call.method().getName() + " " + p)) {
          check(type, call.without(p));
        }
      }
    }
  }

  private void check(Class<?> type, PublicCalls.Call call) {
    String said = "returns";
    try {
      call.run();
    } catch (InvalidArgumentException e) {
      said = e.getMessage();
    } catch (Throwable e) {
      said = e.toString();
    }
    synchronized (wrong) {
      tried++;
      boolean named = said.contains("null") || said.contains("no entries");
      if (!named || !said.contains("Remedy: ")) {
        wrong.add(type.getSimpleName() + "." + call + ": " + said);
      }
    }
  }
}
