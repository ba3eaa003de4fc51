package org.nccl4j.it.nvls;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import jcuda.LogLevel;
import jcuda.driver.JCudaDriver;
import jnr.ffi.LibraryLoader;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/** A program that sets JCuda's switches, as users of JCuda do, and then uses the library. */
public final class JCudaSwitchRanks {
  private static final int COUNT = 1 << 16;
  private static final long PATIENCE_NANOS = Duration.ofSeconds(30).toNanos();

  /** Of the fake driver. Public for jnr-ffi's stubs. */
  public interface Fake {
    /** All calls so far, a line each. */
    String fakeRecord();

    /** Makes a function fail from now on, and no other. */
    void fakeFail(String call, int code);
  }

  private JCudaSwitchRanks() {}

  /**
   * No arguments. Until the end events are not complete, which is the driver's most usual status.
   */
  public static void main(String[] arguments) {
    JCudaDriver.setExceptionsEnabled(true);
    JCudaDriver.setLogLevel(LogLevel.LOG_DEBUGTRACE);
    List<Device> devices = List.copyOf(Devices.cuda().list());
    List<Communicator> ranks = Communicator.initAll(devices);
    List<CudaStream> streams = new ArrayList<>();
    List<DeviceMemory> buffers = new ArrayList<>();
    for (Device device : devices) {
      streams.add((CudaStream) device.createStream());
      buffers.add(device.allocate(4L * COUNT));
    }
    allReduce(ranks, buffers, streams);
    Fake fake = LibraryLoader.create(Fake.class).load("libcuda.so.1");
    awaitObserver(fake);
    events(devices.get(0), streams.get(0));
    graph(ranks, buffers, streams);
    streams.get(0).launchHostFunction(() -> System.out.println("called by the stream"));
    streams.forEach(stream -> stream.synchronize(Duration.ofSeconds(30)));
    fake.fakeFail("", 0);
    ranks.forEach(Communicator::close);
    buffers.forEach(DeviceMemory::close);
    streams.forEach(CudaStream::close);
    System.out.println("all done");
  }

  private static void allReduce(
      List<Communicator> ranks, List<DeviceMemory> buffers, List<CudaStream> streams) {
    Group.run(
        () -> {
          for (int rank = 0; rank < ranks.size(); rank++) {
            DeviceMemory buffer = buffers.get(rank);
            ranks
                .get(rank)
                .allReduce(buffer, buffer, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
          }
        });
  }

  /** It asks about events that are not complete. */
  private static void awaitObserver(Fake fake) {
    long start = System.nanoTime();
    while (!fake.fakeRecord().contains("cuEventQuery(")) {
      if (System.nanoTime() - start > PATIENCE_NANOS) {
        throw new AssertionError("nobody looks");
      }
      LockSupport.parkNanos(1_000_000);
    }
  }

  private static void events(Device device, CudaStream stream) {
    try (DeviceEvent event = device.createEvent()) {
      stream.record(event);
      stream.await(event);
      System.out.println("event is complete: " + event.isComplete());
      event.synchronize();
    }
  }

  private static void graph(
      List<Communicator> ranks, List<DeviceMemory> buffers, List<CudaStream> streams) {
    streams.forEach(CudaStream::beginCapture);
    allReduce(ranks, buffers, streams);
    for (CudaStream stream : streams) {
      try (CudaGraph graph = stream.endCapture()) {
        graph.launch(stream);
      }
    }
  }
}
