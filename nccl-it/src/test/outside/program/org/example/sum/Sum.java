package org.example.sum;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** An all-reduce among ranks of this process, with a check of every element. */
public final class Sum {
  private static final int RANKS = 4;
  private static final int COUNT = 1000;

  private Sum() {}

  /** Prints the number of right elements; fails if one is wrong. */
  public static void main(String[] arguments) {
    List<Communicator> ranks = Communicator.initAll(Collections.nCopies(RANKS, Devices.host()));
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    List<ByteBuffer> data = new ArrayList<>();
    for (int r = 0; r < RANKS; r++) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
      for (int i = 0; i < COUNT; i++) {
        buffer.putInt(4 * i, (r + 1) * i);
      }
      data.add(buffer);
    }
    Group.run(
        () -> {
          for (int r = 0; r < RANKS; r++) {
            DeviceMemory memory = Devices.wrap(data.get(r));
            ranks
                .get(r)
                .allReduce(memory, memory, COUNT, DataType.INT32, RedOp.SUM, streams.get(r));
          }
        });
    streams.forEach(DeviceStream::synchronize);
    int right = 0;
    for (ByteBuffer buffer : data) {
      for (int i = 0; i < COUNT; i++) {
        right += buffer.getInt(4 * i) == RANKS * (RANKS + 1) / 2 * i ? 1 : 0;
      }
    }
    String transport = ranks.get(0).transports().get(1);
    streams.forEach(DeviceStream::close);
    ranks.forEach(Communicator::close);
    if (right != RANKS * COUNT) {
      throw new AssertionError(right + " of " + RANKS * COUNT + " elements are right");
    }
    System.out.printf(
        "all-reduce of %d ranks over %s: %d elements right%n", RANKS, transport, right);
  }
}
