import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.javacpp.FloatPointer;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Sums JavaCPP's memory where it is. */
public final class Pointers {
  private static final int COUNT = 1000;

  private Pointers() {}

  public static void main(String[] arguments) {
    List<Communicator> ranks = Communicator.initAll(List.of(Devices.host(), Devices.host()));
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    List<FloatPointer> data = Stream.generate(() -> new FloatPointer(COUNT)).limit(2).toList();
    for (int i = 0; i < COUNT; i++) {
      data.get(0).put(i, i);
      data.get(1).put(i, 2 * i);
    }
    Group.run(
        () -> {
          for (int rank = 0; rank < 2; rank++) {
            FloatPointer pointer = data.get(rank);
            DeviceMemory memory =
                Devices.wrap(pointer.address(), pointer.limit() * pointer.sizeof());
            ranks
                .get(rank)
                .allReduce(memory, memory, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
          }
        });
    streams.forEach(DeviceStream::synchronize);
    for (int i = 0; i < COUNT; i++) {
      if (data.get(0).get(i) != 3 * i) {
        throw new AssertionError("element " + i);
      }
    }
    data.forEach(FloatPointer::deallocate); // not before the operations have ended
    ranks.forEach(Communicator::close);
    System.out.println("all-reduce of JavaCPP's memory: " + COUNT + " elements right");
  }
}
