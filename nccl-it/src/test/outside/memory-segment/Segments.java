import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Sums memory segments where they are. */
public final class Segments {
  private static final int COUNT = 1000;

  private Segments() {}

  public static void main(String[] arguments) {
    List<Communicator> ranks = Communicator.initAll(List.of(Devices.host(), Devices.host()));
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    try (Arena arena = Arena.ofShared()) {
      List<MemorySegment> data =
          ranks.stream().map(rank -> arena.allocate(ValueLayout.JAVA_FLOAT, COUNT)).toList();
      for (int rank = 0; rank < 2; rank++) {
        for (int i = 0; i < COUNT; i++) {
          data.get(rank).setAtIndex(ValueLayout.JAVA_FLOAT, i, (rank + 1) * i);
        }
      }
      Group.run(
          () -> {
            for (int rank = 0; rank < 2; rank++) {
              MemorySegment segment = data.get(rank);
              var memory = Devices.wrap(segment.address(), segment.byteSize());
              ranks
                  .get(rank)
                  .allReduce(memory, memory, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
            }
          });
      streams.forEach(DeviceStream::synchronize); // before the arena is closed
      for (int i = 0; i < COUNT; i++) {
        if (data.get(1).getAtIndex(ValueLayout.JAVA_FLOAT, i) != 3 * i) {
          throw new AssertionError("element " + i);
        }
      }
    }
    ranks.forEach(Communicator::close);
    System.out.println("all-reduce of memory segments: " + COUNT + " elements right");
  }
}
