package org.example.web;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/** Sums at each request, and closes what it made: else its threads would keep this class. */
public class SumServlet extends HttpServlet {
  private static final long serialVersionUID = 1;
  private static final int COUNT = 1000;
  private static final int OWN_BYTES = 8 << 20;

  @Override
  protected void doGet(HttpServletRequest request, HttpServletResponse response)
      throws IOException {
    List<Communicator> ranks = Communicator.initAll(List.of(Devices.host(), Devices.host()));
    List<DeviceStream> streams = ranks.stream().map(rank -> rank.device().createStream()).toList();
    List<ByteBuffer> data =
        Stream.generate(() -> ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder()))
            .limit(2)
            .toList();
    for (int i = 0; i < COUNT; i++) {
      data.get(0).putInt(4 * i, i);
      data.get(1).putInt(4 * i, 2 * i);
    }
    Group.run(
        () -> {
          for (int rank = 0; rank < 2; rank++) {
            DeviceMemory memory = Devices.wrap(data.get(rank));
            ranks
                .get(rank)
                .allReduce(memory, memory, COUNT, DataType.INT32, RedOp.SUM, streams.get(rank));
          }
        });
    streams.forEach(DeviceStream::synchronize);
    reduceOwnMemory(ranks, streams);
    streams.forEach(DeviceStream::close);
    ranks.forEach(Communicator::close);
    int right = 0;
    for (int i = 0; i < COUNT; i++) {
      right += data.get(1).getInt(4 * i) == 3 * i ? 1 : 0;
    }
    response.getWriter().print(right + " elements right");
  }

  /** With memory of both kinds, enough to be seen in the process's if it were not freed. */
  private static void reduceOwnMemory(List<Communicator> ranks, List<DeviceStream> streams) {
    List<DeviceMemory> from = ranks.stream().map(rank -> rank.device().allocate(OWN_BYTES)).toList();
    List<DeviceMemory> to = ranks.stream().map(rank -> rank.device().memAlloc(OWN_BYTES)).toList();
    from.forEach(memory -> memory.fill((byte) 1));
    Group.run(
        () -> {
          for (int rank = 0; rank < 2; rank++) {
            ranks
                .get(rank)
                .allReduce(
                    from.get(rank),
                    to.get(rank),
                    OWN_BYTES,
                    DataType.INT8,
                    RedOp.SUM,
                    streams.get(rank));
          }
        });
    streams.forEach(DeviceStream::synchronize);
    from.forEach(DeviceMemory::close);
    to.forEach(DeviceMemory::close);
  }
}
