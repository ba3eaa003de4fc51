package org.nccl4j.it.perf.rank;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.Map;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Decision;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.check.DataSet;
import org.nccl4j.it.perf.check.Verdict;
import org.nccl4j.it.perf.workload.Operation;
import org.nccl4j.it.perf.workload.Segment;

/** Does one rank's orders with a communicator of its own. Used by one thread. */
public final class RankWorker implements AutoCloseable {
  private final RankSpec spec;
  private final Entrance entrance;
  private Communicator communicator;
  private DeviceStream stream;
  private RankBuffers buffers;
  private DeviceMemory barrier;

  /**
   * A rank that has not joined yet.
   *
   * @param entrance where it will
   */
  RankWorker(RankSpec spec, Entrance entrance) {
    this.spec = spec;
    this.entrance = entrance;
  }

  /** Does an order; whatever goes wrong is in the answer. */
  public Answer obey(Order order) {
    try {
      return answer(order);
    } catch (NcclException e) {
      return new Answer.Failed(e.code(), e.problem(), e.remedy(), trace(e));
    } catch (RuntimeException | LinkageError | OutOfMemoryError e) {
      return new Answer.Failed(
          NcclException.Code.INTERNAL_ERROR, e.toString(), "report this as a defect", trace(e));
    }
  }

  private Answer answer(Order order) {
    if (order instanceof Order.Measure measure) {
      return new Answer.Took(measure(measure));
    } else if (order instanceof Order.Check check) {
      return new Answer.Checked(check(check.cell(), check.seed()));
    } else if (order instanceof Order.Join join) {
      return join(join);
    } else if (order instanceof Order.Explain explain) {
      return explain(explain.cell());
    } else if (order instanceof Order.CreateId) {
      return new Answer.Text(UniqueId.create().toString());
    }
    close();
    return new Answer.Left();
  }

  private Answer explain(Cell cell) {
    String operation = cell.workload().operation();
    long count = cell.layout(spec.nRanks()).count();
    Decision decision = communicator.decision(operation, count, cell.type());
    return new Answer.Explained(
        decision.algorithm(),
        decision.protocol(),
        communicator.explain(operation, count, cell.type()));
  }

  private Answer join(Order.Join order) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withName("perf")
            .withOperationDeadline(Duration.ofSeconds(order.deadlineSeconds()));
    for (Map.Entry<String, String> setting : order.settings().entrySet()) {
      config = config.with(setting.getKey(), setting.getValue());
    }
    if (!order.transports().isEmpty()) {
      config = config.withTransports(order.transports());
    }
    Device device = Devices.host();
    communicator = entrance.join(spec, order.uniqueId(), config);
    stream = device.createStream();
    barrier = device.allocate(DataType.INT32.bytes());
    buffers = new RankBuffers(device, spec);
    return new Answer.Joined(
        ProcessHandle.current().pid(), device.name(), communicator.transports());
  }

  private long measure(Order.Measure order) {
    Operation operation = buffers.operation(communicator, stream, order.cell());
    launch(operation, order.warmup(), 1);
    stream.synchronize();
    awaitOthers();
    long start = System.nanoTime();
    if (order.blocking()) {
      for (int i = 0; i < order.iterations(); i++) {
        launch(operation, 1, order.aggregate());
        stream.synchronize();
        awaitOthers();
      }
    } else {
      launch(operation, order.iterations(), order.aggregate());
      stream.synchronize();
    }
    return System.nanoTime() - start;
  }

  private static void launch(Operation operation, int iterations, int aggregate) {
    if (aggregate == 1) {
      for (int i = 0; i < iterations; i++) {
        operation.launch();
      }
      return;
    }
    for (int i = 0; i < iterations; i++) {
      Group.start();
      for (int k = 0; k < aggregate; k++) {
        operation.launch();
      }
      Group.end();
    }
  }

  /** Returns once every rank has come here. */
  private void awaitOthers() {
    communicator.allReduce(barrier, barrier, 1, DataType.INT32, RedOp.SUM, stream);
    stream.synchronize();
  }

  private Verdict check(Cell cell, long seed) {
    RankBuffers.Checked checked = buffers.checked(cell);
    long reach = cell.layout(spec.nRanks()).send();
    DataSet data = new DataSet(cell.type(), cell.op(), spec.nRanks(), reach, seed);
    DataSet.poison(checked.everything());
    data.fillSend(spec.rank(), checked.buffers().send());
    Operation operation = buffers.operation(communicator, stream, cell);
    awaitOthers();
    operation.launch();
    stream.synchronize();
    Verdict verdict = new Verdict(0, DataSet.damage(checked.guard()), "");
    for (Segment segment : checked.expected()) {
      verdict = verdict.and(data.verify(segment, checked.buffers().recv()));
    }
    return verdict;
  }

  private static String trace(Throwable e) {
    StringWriter text = new StringWriter();
    e.printStackTrace(new PrintWriter(text));
    return text.toString();
  }

  @Override
  public void close() {
    if (communicator != null) {
      communicator.close();
      communicator = null;
    }
    if (stream != null) {
      stream.close();
      stream = null;
    }
    if (buffers != null) {
      buffers.close();
      barrier.close();
      buffers = null;
    }
  }
}
