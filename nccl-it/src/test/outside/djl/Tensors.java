import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Takes the mean of PyTorch's tensors where they are. */
public final class Tensors {
  private static final int COUNT = 1000;

  private Tensors() {}

  public static void main(String[] arguments) {
    List<Communicator> ranks = Communicator.initAll(List.of(Devices.host(), Devices.host()));
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    try (NDManager manager = NDManager.newBaseManager(ai.djl.Device.cpu())) {
      NDArray first = manager.arange(0f, COUNT, 1f);
      List<NDArray> gradients = List.of(first, first.mul(3));
      Group.run(
          () -> {
            for (int rank = 0; rank < 2; rank++) {
              // true: the tensor's own memory, not a copy
              DeviceMemory memory = Devices.wrap(gradients.get(rank).toByteBuffer(true));
              ranks
                  .get(rank)
                  .allReduce(memory, memory, COUNT, DataType.FLOAT32, RedOp.AVG, streams.get(rank));
            }
          });
      streams.forEach(DeviceStream::synchronize); // before the manager frees the tensors
      for (NDArray each : gradients) {
        if (!each.contentEquals(manager.arange(0f, COUNT, 1f).mul(2))) {
          throw new AssertionError(each.toString());
        }
      }
    }
    ranks.forEach(Communicator::close);
    System.out.println("all-reduce of DJL's tensors: " + COUNT + " elements right");
  }
}
