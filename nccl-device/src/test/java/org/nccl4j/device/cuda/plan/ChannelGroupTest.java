package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.device.cuda.GpuRanks;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicator.GroupLaunch;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Large collectives of groups that share the channels, against the recording driver. */
class ChannelGroupTest extends AgainstFakeCuda {
  private static final int N = 2;
  private static final int BYTES = 1 << 20;
  private static final String LAUNCH = "cuLaunchKernelEx(";

  private GpuRanks ranks;
  private KernelCommunicator kernels;
  private GroupLaunch group;
  private CudaStream stream;
  private DeviceMemory memory;
  private CudaPlan launched;

  @BeforeEach
  void create() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    ranks = new GpuRanks(N, Duration.ofSeconds(3));
    kernels = ranks.communicators().get(0);
    group = kernels.groupLaunch();
    stream = ranks.streams.get(0);
    memory = ranks.devices.get(0).allocate(16L * BYTES);
  }

  @AfterEach
  void close() {
    if (ranks != null) {
      memory.close();
      ranks.close();
    }
  }

  private static CollectiveWork sum(long bytes, int channels) {
    return new CollectiveWork(
        Operation.ALL_REDUCE,
        Algorithm.RING,
        Protocol.SIMPLE,
        DataType.FLOAT32,
        RedOp.SUM,
        0,
        bytes / 4,
        channels,
        1 << 15);
  }

  /** Adds a sum in place on the megabyte of a number. */
  private boolean add(int number, long bytes, int channels) {
    DeviceMemory own = memory.slice((long) number * BYTES, bytes);
    return group.add(kernels.prepare(sum(bytes, channels)), own, own, stream);
  }

  /** Launches and forgets all; the calls of the driver. */
  private List<String> launch() {
    fake.fakeReset();
    launched = (CudaPlan) group.launch(0, group.size());
    group.clear();
    return fake.fakeRecord().lines().toList();
  }

  private static List<String> streams(List<String> record) {
    List<String> all = new ArrayList<>();
    for (String line : record) {
      if (line.startsWith(LAUNCH)) {
        all.add(line.split(",")[7]);
      }
    }
    return all;
  }

  private static long count(List<String> record, String call) {
    return record.stream().filter(line -> line.startsWith(call + "(")).count();
  }

  private int firstChannel() {
    Offheap arguments = new Offheap(KernelLayout.COLLECTIVE_BYTES);
    fake.fakeAllArguments(arguments.address(), KernelLayout.COLLECTIVE_BYTES);
    return arguments.getInt(KernelLayout.FIRST_CHANNEL);
  }

  @Test
  void eachPartOfTheChannelsHasAStream() {
    for (int w = 0; w < 6; w++) {
      assertTrue(add(w, BYTES, 32));
    }
    List<String> record = launch();
    List<String> streams = streams(record);
    assertEquals(6, streams.size());
    assertEquals(4, streams.stream().distinct().count());
    assertEquals(Long.toHexString(stream.handle()), streams.get(0), "the user's own");
    assertEquals(streams.get(0), streams.get(4));
    assertEquals(streams.get(1), streams.get(5));
    assertEquals(8, firstChannel());
    assertTrue(record.stream().filter(l -> l.startsWith(LAUNCH)).allMatch(l -> l.contains("(8,")));
    assertFalse(record.toString().contains("6:1"), "none starts early");
    assertEquals(6, count(record, "cuStreamWaitEvent"), "three part and join");
    assertEquals(32, launched.blocks(), "at the same time");
  }

  @Test
  void collectivesGoWhereTheFewestBytesAre() {
    assertTrue(add(0, 8L * BYTES, 32));
    for (int w = 8; w < 12; w++) {
      assertTrue(add(w, BYTES, 32));
    }
    List<String> streams = streams(launch());
    assertEquals(5, streams.size());
    assertEquals(1, streams.stream().filter(streams.get(0)::equals).count());
    assertEquals(streams.get(1), streams.get(4));
  }

  /** Other ranks need not know: their collectives have the same channels. */
  @Test
  void whatDependsOnAnotherComesBehindIt() {
    assertTrue(add(0, BYTES, 32));
    assertTrue(add(0, BYTES, 32));
    List<String> record = launch();
    assertEquals(2, streams(record).size());
    assertEquals(1, streams(record).stream().distinct().count());
    assertEquals(16, firstChannel(), "of the second half");
    assertEquals(0, count(record, "cuStreamWaitEvent"));
  }

  @Test
  void fewChannelsAreNotDivided() {
    assertTrue(add(0, BYTES, 3));
    assertTrue(add(1, BYTES, 3));
    List<String> record = launch();
    assertEquals(1, streams(record).stream().distinct().count());
    assertEquals(0, firstChannel());
  }

  @Test
  void smallAndHugeOnesGoAlone() {
    assertFalse(add(0, 4096, 32));
    DeviceMemory large = ranks.devices.get(0).allocate(128L * BYTES);
    assertFalse(group.add(kernels.prepare(sum(128L * BYTES, 32)), large, large, stream));
    large.close();
  }

  @Test
  void aCaptureHasStreamsOfItsOwn() {
    assertTrue(add(0, BYTES, 32));
    assertTrue(add(1, BYTES, 32));
    List<String> eager = streams(launch());
    stream.beginCapture();
    assertTrue(add(0, BYTES, 32));
    assertTrue(add(1, BYTES, 32));
    List<String> captured =
        streams(
            List.of(
                recordOf(
                        () -> {
                          group.launch(0, 2);
                          group.clear();
                        })
                    .split("\n")));
    stream.endCapture().close();
    assertEquals(2, captured.size());
    assertEquals(eager.get(0), captured.get(0));
    assertFalse(captured.get(1).equals(eager.get(1)), captured.toString());
  }

  /** The calls that an action adds to the record; a reset would end a capture. */
  private String recordOf(Runnable action) {
    int before = fake.fakeRecord().length();
    action.run();
    return fake.fakeRecord().substring(before);
  }
}
