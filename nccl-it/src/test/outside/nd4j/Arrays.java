import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nd4j.linalg.api.ndarray.INDArray;
import org.nd4j.linalg.factory.Nd4j;

/** Sums ND4J's arrays where they are. */
public final class Arrays {
  private static final int COUNT = 1000;

  private Arrays() {}

  public static void main(String[] arguments) {
    List<Communicator> ranks = Communicator.initAll(List.of(Devices.host(), Devices.host()));
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    INDArray first = Nd4j.arange(COUNT).castTo(org.nd4j.linalg.api.buffer.DataType.FLOAT);
    List<INDArray> data = List.of(first, first.mul(2));
    Group.run(
        () -> {
          for (int rank = 0; rank < 2; rank++) {
            INDArray array = data.get(rank); // of order 'c', and no view
            long bytes = array.length() * array.dataType().width();
            DeviceMemory memory = Devices.wrap(array.data().address(), bytes);
            ranks
                .get(rank)
                .allReduce(memory, memory, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
          }
        });
    streams.forEach(DeviceStream::synchronize);
    for (int i = 0; i < COUNT; i++) {
      if (data.get(0).getFloat(i) != 3 * i) {
        throw new AssertionError("element " + i);
      }
    }
    ranks.forEach(Communicator::close);
    System.out.println("all-reduce of ND4J's arrays: " + COUNT + " elements right");
  }
}
