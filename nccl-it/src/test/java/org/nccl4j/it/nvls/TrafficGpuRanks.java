package org.nccl4j.it.nvls;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.support.Patience;
import org.nccl4j.operation.Operation;

/** A program that launches sums on its GPUs, and prints what its flight recorder says of links. */
final class TrafficGpuRanks {
  private static final int COUNT = 1 << 20;
  private static final int TIMES = 5;

  private TrafficGpuRanks() {}

  /** Arguments: an algorithm, and the bytes that each rank sends. */
  public static void main(String[] arguments) {
    List<Communicator> ranks = Communicator.initAll(List.<Device>copyOf(Devices.cuda().list()));
    CallOptions options = CallOptions.defaults().withAlgorithm(arguments[0]);
    List<Communicator> views = ranks.stream().map(rank -> rank.withOptions(options)).toList();
    List<DeviceMemory> data = ranks.stream().map(r -> r.device().allocate(4L * COUNT)).toList();
    List<DeviceStream> streams = ranks.stream().map(r -> r.device().createStream()).toList();
    for (int times = 0; times < TIMES; times++) {
      Group.run(
          () -> {
            for (Communicator view : views) {
              DeviceMemory own = data.get(view.rank());
              view.allReduce(
                  own, own, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(view.rank()));
            }
          });
    }
    streams.forEach(DeviceStream::synchronize);
    long expected = Long.parseLong(arguments[1]);
    boolean seen =
        Patience.until(
            () -> reports().stream().allMatch(rank -> sent(rank) >= expected),
            Duration.ofSeconds(60));
    System.out.println(seen ? "seen" : "not seen: " + reports());
    reports()
        .forEach(
            rank ->
                System.out.printf("rank %d sends %d: %s%n", rank.rank(), sent(rank), bytes(rank)));
    streams.forEach(DeviceStream::close);
    ranks.forEach(Communicator::close);
    data.forEach(DeviceMemory::close);
  }

  private static List<RankReport> reports() {
    return FlightReader.ofThisProcess(Operation.keys());
  }

  private static long sent(RankReport rank) {
    return bytes(rank).values().stream().mapToLong(each -> each).sum();
  }

  private static Map<String, Long> bytes(RankReport rank) {
    Map<String, Long> bytes = new TreeMap<>();
    rank.links()
        .traffic()
        .forEach(link -> bytes.put(link.way() + " to " + link.peer(), link.bytes()));
    return bytes;
  }
}
