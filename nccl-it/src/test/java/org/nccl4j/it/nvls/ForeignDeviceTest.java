package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Buffers and streams of another device are refused by name, before any launch. */
@Timeout(600)
class ForeignDeviceTest {
  private static final DataType F32 = DataType.FLOAT32;

  @TempDir private Path folder;

  @Test
  void isRefusedByName() throws Exception {
    Ran ran = FakeGpuProcess.in(folder).run(Map.of(), Mixer.class);
    for (String expected :
        List.of(
            "host memory: BUFFER the send buffer belongs to host",
            "another GPU's memory: BUFFER the recv buffer belongs to Fake GPU 1",
            "another GPU's stream: STREAM the stream belongs to Fake GPU 1",
            "the host's stream: STREAM the stream belongs to host",
            "another GPU's part: BUFFER the recv buffer belongs to Fake GPU 1",
            "another GPU's source: BUFFER the source belongs to Fake GPU 1",
            "a signal in another GPU's stream: STREAM the stream belongs to Fake GPU 1",
            "another GPU's window: BUFFER the memory belongs to Fake GPU 1",
            "another GPU's registration: BUFFER the memory belongs to Fake GPU 1",
            "the host's event: EVENT an event of another kind of device",
            "a GPU's event on the host: EVENT an event of another device",
            "a supplied reduction: UNSUPPORTED this device has no reduction 'mine'",
            "another GPU's scalar: BUFFER the scalar's buffer belongs to Fake GPU 1",
            "a scalar in host memory: BUFFER the scalar's buffer belongs to host",
            "a scalar of a host's address: BUFFER the CUDA driver does not know them",
            "a scalar that was freed: BUFFER of the scalar's buffer the address 0x",
            "floats at odd addresses: BUFFER the send buffer begins at 0x",
            "a closed scalar: CLOSED the scalar's buffer is closed",
            "a scalar of another type: TYPE the operator premulsum was created for int32")) {
      assertTrue(ran.output().lines().anyMatch(line -> line.startsWith(expected)), ran.output());
    }
    assertTrue(ran.output().contains("still fine"), ran.output());
    long launches = ran.calls().stream().filter(call -> call.startsWith("cuLaunchKernel")).count();
    assertTrue(launches <= 2, launches + " kernels were launched");
  }

  /** A program that mixes what belongs to two GPUs and to the host. */
  static final class Mixer {
    private interface Call {
      void run(Communicator comm);
    }

    private Mixer() {}

    /** No arguments. */
    public static void main(String[] arguments) {
      List<Device> devices = List.copyOf(Devices.cuda().list());
      List<Communicator> ranks = Communicator.initAll(devices);
      Device host = Devices.host();
      try (DeviceMemory own = devices.get(0).memAlloc(4096);
          DeviceMemory theirs = devices.get(1).memAlloc(4096);
          DeviceMemory hosts = host.memAlloc(4096);
          DeviceStream stream = devices.get(0).createStream();
          DeviceStream their = devices.get(1).createStream();
          DeviceStream hostStream = host.createStream()) {
        Window[] windows = new Window[2];
        Group.run(
            () -> {
              windows[0] = ranks.get(0).registerWindow(own);
              windows[1] = ranks.get(1).registerWindow(theirs);
            });
        Map<String, Call> calls = new LinkedHashMap<>();
        calls.put("host memory", c -> c.allReduce(hosts, own, 8, F32, RedOp.SUM, stream));
        calls.put("another GPU's memory", c -> c.allReduce(own, theirs, 8, F32, RedOp.SUM, stream));
        calls.put("another GPU's stream", c -> c.send(own, 8, F32, 1, their));
        calls.put("the host's stream", c -> c.broadcast(own, own, 8, F32, 0, hostStream));
        calls.put(
            "another GPU's part",
            c -> c.allGatherV(own, theirs, new long[] {1, 2}, null, F32, stream));
        calls.put(
            "another GPU's source", c -> c.putSignal(theirs, 1, F32, 1, windows[0], 0, stream));
        calls.put("a signal in another GPU's stream", c -> c.signal(1, their));
        calls.put(
            "another GPU's window",
            c ->
                Group.run(
                    () -> {
                      c.registerWindow(theirs.slice(0, 64));
                      ranks.get(1).registerWindow(theirs.slice(0, 64));
                    }));
        calls.put("another GPU's registration", c -> c.register(theirs));
        calls.put("the host's event", c -> stream.record(host.createEvent()));
        calls.put("a GPU's event on the host", c -> hostStream.await(c.device().createEvent()));
        ReductionOperator mine = ReductionOperator.of("mine", (a, b, to, count, type) -> {});
        calls.put("a supplied reduction", c -> c.allReduce(own, own, 8, F32, mine, stream));
        DeviceMemory closed = devices.get(0).memAlloc(4);
        calls.put("another GPU's scalar", scaled(F32, theirs, own, stream));
        calls.put("a scalar in host memory", scaled(F32, hosts, own, stream));
        calls.put(
            "a scalar of a host's address",
            c -> scaled(F32, devices.get(0).wrap(0x10, 4), own, stream).run(c));
        DeviceMemory freed = devices.get(0).allocate(4);
        calls.put(
            "a scalar that was freed",
            scaled(F32, devices.get(0).wrap(freed.address(), 4), own, stream));
        freed.close();
        calls.put(
            "floats at odd addresses",
            c -> c.allReduce(own.slice(2, 32), own, 8, F32, RedOp.SUM, stream));
        calls.put("a closed scalar", scaled(F32, closed, own, stream));
        calls.put("a scalar of another type", scaled(DataType.INT32, own, own, stream));
        closed.close();
        calls.forEach((name, call) -> System.out.println(name + ": " + outcome(call, ranks)));
        Group.run(
            () -> {
              ranks.get(0).allReduce(own, own, 8, F32, RedOp.SUM, stream);
              ranks.get(1).allReduce(theirs, theirs, 8, F32, RedOp.SUM, their);
            });
        stream.synchronize();
        their.synchronize();
        boolean fine = ranks.stream().allMatch(comm -> comm.asyncError().isEmpty());
        System.out.println(fine ? "still fine" : "failed");
      }
      ranks.forEach(Communicator::close);
    }

    private static Call scaled(
        DataType type, DeviceMemory scalar, DeviceMemory data, DeviceStream stream) {
      ReductionOperator operator = ReductionOperator.preMulSum(type, scalar);
      return c -> c.reduceScatter(data, data, 8, F32, operator, stream);
    }

    private static String outcome(Call call, List<Communicator> ranks) {
      try {
        call.run(ranks.get(0));
        return "taken";
      } catch (NcclException e) {
        String problem = e.problem();
        return e.id()
            + " "
            + problem.substring(problem.indexOf(": ") < 0 ? 0 : problem.indexOf(": ") + 2);
      }
    }
  }
}
