package org.nccl4j.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** The meters count what was called, from their binding to their end. */
@Timeout(600)
class CommunicatorMetricsTest {
  private final SimpleMeterRegistry registry = new SimpleMeterRegistry();

  @Test
  void operationsBytesTimeAndErrorsAreCounted() {
    CommunicatorConfig named = CommunicatorConfig.defaults().withName("metered");
    try (Communicator comm = Communicator.initAll(List.of(Devices.host()), named).get(0);
        DeviceStream stream = comm.device().createStream();
        DeviceMemory data = comm.device().allocate(400)) {
      comm.allReduce(data, data, 100, DataType.FLOAT32, RedOp.SUM, stream);
      try (CommunicatorMetrics metrics = new CommunicatorMetrics(comm)) {
        metrics.bindTo(registry);
        metrics.bindTo(registry);
        for (int n = 0; n < 3; n++) {
          comm.allReduce(data, data, 100, DataType.FLOAT32, RedOp.SUM, stream);
        }
        comm.broadcast(data, data, 7, DataType.INT8, 0, stream);
        stream.synchronize();
        assertEquals(3, value("nccl4j.operations", "all_reduce"));
        assertEquals(1200, value("nccl4j.operation.bytes", "all_reduce"));
        assertEquals(7, value("nccl4j.operation.bytes", "broadcast"));
        var timer =
            registry.get("nccl4j.operation.time").tag("operation", "all_reduce").functionTimer();
        assertEquals(3, timer.count());
        assertTrue(timer.totalTime(TimeUnit.NANOSECONDS) > 0);
        assertEquals(0, errors());
        comm.abort();
        assertThrows(
            NcclException.class,
            () -> comm.allReduce(data, data, 100, DataType.FLOAT32, RedOp.SUM, stream));
        assertEquals(1, errors());
        assertEquals(3, value("nccl4j.operations", "all_reduce"));
      }
      assertTrue(registry.getMeters().isEmpty());
    }
  }

  private double value(String meter, String operation) {
    return registry
        .get(meter)
        .tags("communicator", "metered", "rank", "0", "operation", operation)
        .functionCounter()
        .count();
  }

  private double errors() {
    return registry.get("nccl4j.errors").tag("communicator", "metered").functionCounter().count();
  }
}
