package org.nccl4j.it.api;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.IntToDoubleFunction;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/** A communicator of some ranks of this process, each with a stream and a thread. */
final class Ranks implements AutoCloseable {
  /** What a rank does on its thread. */
  interface Body {
    void run(Communicator communicator, DeviceStream stream) throws Exception;
  }

  final List<Communicator> communicators;
  final List<DeviceStream> streams = new ArrayList<>();

  Ranks(int n) {
    this(n, CommunicatorConfig.defaults());
  }

  Ranks(int n, CommunicatorConfig config) {
    CommunicatorConfig bounded =
        config.settings().containsKey("NCCL4J_TIMEOUT")
            ? config
            : config.withOperationDeadline(Duration.ofSeconds(60));
    communicators = Communicator.initAll(Collections.nCopies(n, Devices.host()), bounded);
    communicators.forEach(c -> streams.add(c.device().createStream()));
  }

  /** Runs a body on a thread for each rank; throws the first rank's error. */
  void run(Body body) throws Exception {
    List<FutureTask<Void>> tasks = start(body);
    for (FutureTask<Void> task : tasks) {
      try {
        task.get(120, TimeUnit.SECONDS);
      } catch (ExecutionException e) {
        if (e.getCause() instanceof RuntimeException cause) {
          throw cause;
        }
        throw e;
      }
    }
  }

  List<FutureTask<Void>> start(Body body) {
    List<FutureTask<Void>> tasks = new ArrayList<>();
    for (int rank = 0; rank < communicators.size(); rank++) {
      Communicator communicator = communicators.get(rank);
      DeviceStream stream = streams.get(rank);
      FutureTask<Void> task =
          new FutureTask<>(
              () -> {
                body.run(communicator, stream);
                return null;
              });
      tasks.add(task);
      Thread thread = new Thread(task, "rank " + rank);
      thread.setDaemon(true);
      thread.start();
    }
    return tasks;
  }

  static DeviceMemory floats(int count, IntToDoubleFunction value) {
    ByteBuffer data = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      data.putFloat((float) value.applyAsDouble(i));
    }
    DeviceMemory memory = Devices.host().allocate(4L * count);
    memory.write(0, data.flip());
    return memory;
  }

  static float[] floats(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocate((int) memory.size()).order(ByteOrder.nativeOrder());
    memory.read(0, data);
    float[] out = new float[(int) memory.size() / 4];
    data.flip().asFloatBuffer().get(out);
    return out;
  }

  @Override
  public void close() {
    streams.forEach(DeviceStream::close);
    communicators.forEach(Communicator::close);
  }
}
