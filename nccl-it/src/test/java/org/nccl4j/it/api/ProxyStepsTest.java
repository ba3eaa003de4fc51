package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Window;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.Profiler.ProxyStep;
import org.nccl4j.api.spi.Profiler.StepState;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.sample.CompiledPlugins;

/** Profilers hear of all steps of proxies, in order, and only if they ask. */
@Timeout(600)
class ProxyStepsTest {
  private static final int COUNT = 300_000;
  private static final String NAME = "org.example.steps.Steps";
  private static final String SOURCE =
      """
      package org.example.steps;

      import java.util.Optional;
      import java.util.Queue;
      import java.util.concurrent.ConcurrentLinkedQueue;
      import org.nccl4j.api.spi.*;

      public final class Steps implements ProfilerProvider {
        public static final Queue<Object[]> TOLD = new ConcurrentLinkedQueue<>();
        public static final Queue<String> CLOSED = new ConcurrentLinkedQueue<>();
        public static volatile int mask;

        @Override
        public String name() {
          return "steps";
        }

        @Override
        public Optional<Profiler> open(String communicator, int rank, int nRanks) {
          return Optional.of(
              new Profiler() {
                @Override
                public int activation() {
                  return mask;
                }

                @Override
                public void stepped(ProxyStep step) {
                  TOLD.add(new Object[] {communicator, rank, step});
                  if (communicator.equals("throws")) {
                    throw new IllegalStateException("not ever");
                  }
                }

                @Override
                public void close() {
                  CLOSED.add(communicator + " " + rank);
                }
              });
        }
      }
      """;

  @TempDir private Path folder;
  private CompiledPlugins plugins;
  private Class<?> provider;
  private Queue<Object[]> told;
  private Queue<String> closed;

  /** Of one rank of one communicator. */
  private record Told(String communicator, int rank, ProxyStep step) {
    String channel() {
      return "rank %d %s %d, connection %d, channel %d"
          .formatted(
              step.rank(),
              step.sends() ? "to" : "from",
              step.peer(),
              step.connection(),
              step.channel());
    }
  }

  @BeforeEach
  @SuppressWarnings("unchecked") // as SOURCE says
  void provide() throws Exception {
    plugins = CompiledPlugins.of(folder, SOURCE, Map.of(ProfilerProvider.class, NAME));
    provider = plugins.load(NAME);
    told = (Queue<Object[]>) provider.getField("TOLD").get(null);
    closed = (Queue<String>) provider.getField("CLOSED").get(null);
    activate(Profiler.PROXY_STEPS);
  }

  @AfterEach
  void restore() throws Exception {
    plugins.close();
  }

  /** The events that profilers opened from now on ask for. */
  private void activate(int mask) throws Exception {
    provider.getField("mask").setInt(null, mask);
  }

  private Stream<Told> told() {
    return told.stream().map(all -> new Told((String) all[0], (int) all[1], (ProxyStep) all[2]));
  }

  private static CommunicatorConfig net() {
    return CommunicatorConfig.defaults()
        .withName("told")
        .withTransports(List.of("NET"))
        .with("NCCL_PROFILER_PLUGIN", "steps")
        .with("NCCL_SOCKET_IFNAME", "lo");
  }

  private static void reduce(Ranks ranks, int count, int times) throws Exception {
    ranks.run(
        (comm, stream) -> {
          try (DeviceMemory data = Ranks.floats(count, i -> 1)) {
            for (int n = 0; n < times; n++) {
              comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.MAX, stream);
            }
            stream.synchronize();
          }
        });
  }

  private Map<String, List<ProxyStep>> byChannel() {
    return told()
        .collect(
            Collectors.groupingBy(
                Told::channel,
                LinkedHashMap::new,
                Collectors.mapping(Told::step, Collectors.toList())));
  }

  /** Each state of a direction from 0 on without a gap, and each step's in order; how many. */
  private static int assertWhole(String channel, List<ProxyStep> steps) {
    List<StepState> states =
        steps.get(0).sends()
            ? List.of(StepState.FILLED, StepState.POSTED, StepState.DONE)
            : List.of(StepState.POSTED, StepState.RECEIVED, StepState.DONE);
    List<Integer> next = new ArrayList<>(List.of(0, 0, 0));
    for (ProxyStep step : steps) {
      int state = states.indexOf(step.state());
      assertEquals(next.get(state).longValue(), step.number(), channel + " " + step);
      assertTrue(state == 0 || next.get(state - 1) > step.number(), channel + " " + step);
      assertEquals(!step.sends() && state == 0, step.bytes() == 0, channel + " " + step);
      next.set(state, next.get(state) + 1);
    }
    if (steps.get(0).sends()) {
      assertEquals(List.of(next.get(2), next.get(2), next.get(2)), next, channel);
    } else {
      // A receiver has posted as many as it has slots before the first comes.
      assertEquals(next.get(1), next.get(2), channel);
      assertTrue(next.get(0) > next.get(2), channel);
    }
    return next.get(2);
  }

  private static long bytes(List<ProxyStep> steps) {
    return steps.stream()
        .filter(step -> step.state() == StepState.DONE)
        .mapToLong(ProxyStep::bytes)
        .sum();
  }

  @Test
  void allStepsAreToldInOrder() throws Exception {
    try (Ranks ranks = new Ranks(3, net().with("NCCL_ALGO", "Ring"))) {
      reduce(ranks, COUNT, 3);
    }
    Map<String, List<ProxyStep>> channels = byChannel();
    // In a ring of three each rank sends to one and receives from the other.
    List<String> used =
        channels.keySet().stream().filter(name -> bytes(channels.get(name)) > 0).toList();
    assertEquals(6, used.size(), used.toString());
    for (int rank = 0; rank < 3; rank++) {
      int next = (rank + 1) % 3;
      String sender = "rank %d to %d, connection 0, channel 0".formatted(rank, next);
      String receiver = "rank %d from %d, connection 0, channel 0".formatted(next, rank);
      assertEquals(
          assertWhole(sender, channels.get(sender)), assertWhole(receiver, channels.get(receiver)));
      // An all-reduce of a ring sends 2 (n - 1) / n of its data by each link.
      assertEquals(3 * 4L * COUNT * 4 / 3, bytes(channels.get(sender)), sender);
      assertEquals(bytes(channels.get(sender)), bytes(channels.get(receiver)), receiver);
    }
    assertTrue(told().allMatch(t -> t.communicator.equals("told") && t.rank == t.step.rank()));
    assertEquals(Set.of("told 0", "told 1", "told 2"), Set.copyOf(closed));
  }

  @Test
  void aProfilerThatDoesNotAskIsToldOfNoStep() throws Exception {
    activate(Profiler.LAUNCHES | Profiler.ENDS);
    try (Ranks ranks = new Ranks(2, net())) {
      reduce(ranks, COUNT, 1);
    }
    assertEquals(List.of(), told().toList());
    assertEquals(2, closed.size());
  }

  @Test
  void aProfilerThatAsksForNothingCostsNothing() throws Exception {
    activate(0);
    int operations = 1000;
    try (Ranks ranks = new Ranks(2, net())) {
      Allocation allocation = new Allocation(2, operations, NetCostTest.carriers());
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(2, i -> 1)) {
              allocation.measure(
                  () -> {
                    for (int n = 0; n < operations; n++) {
                      comm.allReduce(data, data, 2, DataType.FLOAT32, RedOp.MAX, stream);
                      stream.synchronize();
                    }
                  });
            }
          });
      allocation.assertNothing();
    }
  }

  @Test
  void stepsOfASplitAreItsParents() throws Exception {
    try (Ranks ranks = new Ranks(2, net())) {
      List<Communicator> splits = new ArrayList<>(Collections.nCopies(2, null));
      ranks.run(
          (comm, stream) ->
              splits.set(
                  comm.rank(),
                  comm.split(0, comm.rank(), CommunicatorConfig.defaults().withName("split"))
                      .orElseThrow()));
      try (Ranks of = new Ranks(splits)) {
        reduce(of, COUNT, 1);
      }
      assertEquals(Set.of("told"), told().map(Told::communicator).collect(Collectors.toSet()));
      assertEquals(Set.of("split 0", "split 1"), Set.copyOf(closed));
    }
  }

  @Test
  void stepsAreToldAfterASuspension() throws Exception {
    try (Ranks ranks = new Ranks(2, net())) {
      reduce(ranks, 16, 1);
      ranks.run((comm, stream) -> comm.suspend());
      told.clear();
      ranks.run((comm, stream) -> comm.resume());
      reduce(ranks, 16, 1);
      assertEquals(List.of(), List.copyOf(closed));
      assertTrue(
          told().anyMatch(told -> told.step().state() == StepState.DONE),
          told().toList().toString());
    }
    assertEquals(2, closed.size());
  }

  /** Puts that go as messages have connections of their own, whose steps are counted apart. */
  @Test
  void putsAreToldApart() throws Exception {
    try (Ranks ranks = Ranks.onHosts("ab", net());
        DeviceMemory source = Devices.host().memAlloc(100_000)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = Devices.host().memAlloc(100_000)) {
              Window window = comm.registerWindow(memory);
              if (comm.rank() == 0) {
                comm.putSignal(source, 100_000, DataType.INT8, 1, window, 0, stream);
              } else {
                comm.waitSignal(Map.of(0, 1), stream);
              }
              stream.synchronize();
              comm.deregisterWindowOnAllRanks(window);
            }
          });
    }
    Map<String, List<ProxyStep>> channels = byChannel();
    String put = "rank 0 to 1, connection 1, channel 0";
    assertTrue(channels.containsKey(put), channels.keySet().toString());
    assertTrue(assertWhole(put, channels.get(put)) > 0);
    assertTrue(bytes(channels.get(put)) >= 100_000, put);
  }

  @Test
  void aProfilerThatThrowsEndsNoOperation() throws Exception {
    try (Ranks ranks = new Ranks(2, net().withName("throws"))) {
      reduce(ranks, COUNT, 2);
      ranks.communicators.forEach(comm -> assertTrue(comm.asyncError().isEmpty()));
    }
    assertEquals(
        1, told().filter(step -> step.rank == 0).count(), "of rank 0, which is told no more");
  }
}
