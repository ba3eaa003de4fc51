package org.nccl4j.it.loader;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** A program that a class loader of its own loads, with all of nccl4j. */
public final class LoadedProgram {
  private static final int RANKS = 3;
  private static final int COUNT = 100_000;

  private LoadedProgram() {}

  /**
   * Sums on the host device, over one transport.
   *
   * @return the transports, and the sum of the ranks' numbers, from 1
   */
  public static String sum(String transports) {
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL4J_TRANSPORTS", transports);
    List<Device> devices = new ArrayList<>();
    IntStream.range(0, RANKS).forEach(rank -> devices.add(Devices.host()));
    List<Communicator> ranks = Communicator.initAll(devices, config);
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    List<ByteBuffer> data = ranks.stream().map(rank -> numbers(rank.rank() + 1)).toList();
    Group.run(
        () -> {
          for (int rank = 0; rank < RANKS; rank++) {
            DeviceMemory memory = Devices.wrap(data.get(rank));
            ranks
                .get(rank)
                .allReduce(memory, memory, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
          }
        });
    streams.forEach(DeviceStream::synchronize);
    String by = ranks.get(0).transports().toString();
    streams.forEach(DeviceStream::close);
    ranks.forEach(Communicator::close);
    return by + " " + data.get(0).getFloat(4 * (COUNT - 1));
  }

  private static ByteBuffer numbers(float value) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
    for (int i = 0; i < COUNT; i++) {
      data.putFloat(4 * i, value);
    }
    return data;
  }
}
