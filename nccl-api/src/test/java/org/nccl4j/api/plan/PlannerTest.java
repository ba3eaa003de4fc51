package org.nccl4j.api.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.plan.algorithm.ChoicesTest;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans that are made, kept and discarded, against kernels that record them. */
class PlannerTest {
  private static final int RANKS = 4;

  /** More different groups than any cache of plans holds. */
  private static final int MANY = 5000;

  private static final InfoLog LOG =
      new InfoLog(Settings.ofProcess(Map.of()), "rank 0 of communicator planned");
  private static final Planner.Rules NO_RULES =
      new Planner.Rules(AlgorithmFilter.ALL, TunerHook.NONE, CtaLimits.NONE, LOG);

  private final FakeKernels kernels = new FakeKernels();
  private final Planner planner = planner(0, NO_RULES);

  private Planner planner(int rank, Planner.Rules rules) {
    return planner(rank, rules, NvlsAccess.NONE);
  }

  private Planner planner(int rank, Planner.Rules rules, NvlsAccess nvls) {
    CommunicatorProfile ranks = new CommunicatorProfile(RANKS, Device.Kind.HOST, "", true, false);
    ConnectionLayout layout = new ConnectionLayout(1 << 10, 1 << 10, 1 << 12);
    return new Planner(
        kernels, new Planner.Place(rank, ranks, layout, nvls, ChoicesTest.windows(ranks)), rules);
  }

  private static long shape(Operation operation, RedOp op, int root) {
    return CallShape.of(operation, DataType.FLOAT32, op, root);
  }

  /** An all-to-all of parts passes slices that are made for the call. */
  private static List<P2pTask> exchange(DeviceMemory send, DeviceMemory recv, int bytes) {
    List<P2pTask> tasks = new ArrayList<>();
    for (int peer = 1; peer < RANKS; peer++) {
      tasks.add(new P2pTask(true, peer, send.slice(64 * peer, bytes), bytes, null));
      tasks.add(new P2pTask(false, peer, recv.slice(64 * peer, bytes), bytes, null));
    }
    return tasks;
  }

  @Test
  void equalCallsPrepareOnce() {
    try (DeviceMemory send = HostDevice.instance().allocate(1 << 10);
        DeviceMemory recv = HostDevice.instance().allocate(1 << 10)) {
      KernelPlan first = planner.plan(exchange(send, recv, 32));
      for (int call = 0; call < 1000; call++) {
        assertSame(first, planner.plan(exchange(send, recv, 32)));
      }
      assertEquals(1, kernels.plans.size());
      assertNotSame(first, planner.plan(exchange(send, recv, 33)));
      assertNotSame(first, planner.plan(exchange(recv, send, 32)));
      assertSame(first, planner.plan(exchange(send, recv, 32)));
    }
  }

  /** A kernel in a queue of the host has to keep the memory that it works on. */
  @Test
  void otherMemoryOfTheHostAtAnAddressIsOther() {
    try (DeviceMemory memory = HostDevice.instance().allocate(64)) {
      P2pTask task = new P2pTask(true, 1, memory, 64, null);
      DeviceMemory again = memory.slice(0, 64);
      assertEquals(task, new P2pTask(true, 1, again, 64, null));
      assertEquals(task.hashCode(), new P2pTask(true, 1, again, 64, null).hashCode());
      DeviceMemory first = HostDevice.instance().allocate(64);
      assertEquals(false, task.equals(new P2pTask(true, 1, first, 64, null)));
      first.close();
    }
  }

  @Test
  void aGroupThatWasUsedLongAgoIsDiscarded() {
    try (DeviceMemory send = HostDevice.instance().allocate(1 << 14);
        DeviceMemory recv = HostDevice.instance().allocate(1 << 14)) {
      FakeKernels.Plan often = (FakeKernels.Plan) planner.plan(exchange(send, recv, 1));
      assertSame(often, planner.plan(exchange(send, recv, 1)));
      for (int call = 0; call < MANY; call++) {
        planner.plan(exchange(send, recv, 2 + call));
        planner.plan(exchange(send, recv, 2 + call)); // comes again, so it is kept
        assertSame(often, planner.plan(exchange(send, recv, 1)));
      }
      assertEquals(0, often.discards());
      assertHolds(256);
    }
  }

  @Test
  void aShapeWhosePlaceAnotherTakesIsDiscarded() {
    for (int count = 1; count <= MANY; count++) {
      planner.plan(CallShape.of(Operation.ALL_REDUCE, DataType.INT8, RedOp.SUM, 0), count);
      planner.plan(CallShape.of(Operation.ALL_TO_ALL, DataType.INT8, RedOp.SUM, 0), count);
    }
    assertHolds(1024);
  }

  @Test
  void theChoiceFillsTheWork() {
    planner.plan(shape(Operation.REDUCE, RedOp.MAX, 3), 7);
    CollectiveWork work = kernels.last().collective();
    AlgorithmChoice choice = planner.choice(Operation.REDUCE, 7, DataType.FLOAT32);
    assertEquals(Operation.REDUCE, work.operation());
    assertEquals(choice.algorithm(), work.algorithm());
    assertEquals(choice.protocol(), work.protocol());
    assertEquals(List.of(DataType.FLOAT32, RedOp.MAX), List.of(work.type(), work.op()));
    assertEquals(3, work.root());
    assertEquals(7, work.count());
    assertEquals(1, work.nChannels());
    assertEquals(true, work.chunkBytes() > 0);
  }

  /** Else a rank would wait for the others, which may wait for it in another call. */
  @Test
  void preparingMakesNoNvls() {
    Nvls outline =
        new Nvls(
            new NvlsLayout(RANKS, 1, 512),
            List.of(0, 1, 2, 3),
            0,
            null,
            new MulticastMemory(/* emulated= */ true, List.of()));
    AtomicInteger makings = new AtomicInteger();
    NvlsAccess unmade =
        new NvlsAccess() {
          @Override
          public Nvls place() {
            return outline;
          }

          @Override
          public Optional<Nvls> make() {
            makings.incrementAndGet();
            return Optional.empty();
          }
        };
    AlgorithmFilter demand = AlgorithmFilter.parse("Ring;allreduce:NVLS", "");
    Planner later =
        planner(0, new Planner.Rules(demand, TunerHook.NONE, CtaLimits.NONE, LOG), unmade);
    later.prepare(shape(Operation.BROADCAST, RedOp.SUM, 0), 1000);
    assertEquals(Algorithm.RING, kernels.last().collective().algorithm());
    long call = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    later.prepare(call, 1000);
    assertEquals(0, makings.get());
    assertEquals(1, kernels.plans.size());
    later.plan(call, 1000);
    assertEquals(1, makings.get());
    later.prepare(call, 500);
    assertEquals(1, makings.get());
    assertEquals(3, kernels.plans.size());
  }

  /** The filter and the tuner decide, also against the predicted times. */
  @Test
  void rulesDecide() {
    long call = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    for (Algorithm algorithm :
        List.of(Algorithm.TREE, Algorithm.RING, Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)) {
      for (Protocol protocol : Protocol.values()) {
        AlgorithmFilter only = AlgorithmFilter.parse(algorithm.label(), protocol.label());
        planner(0, new Planner.Rules(only, TunerHook.NONE, CtaLimits.NONE, LOG)).plan(call, 1000);
        assertEquals(algorithm, kernels.last().collective().algorithm());
        assertEquals(protocol, kernels.last().collective().protocol());

        TunerHook tuner =
            (operation, bytes, type, choices) ->
                choices.stream()
                    .map(
                        c ->
                            new AlgorithmChoice(
                                c.algorithm(),
                                c.protocol(),
                                c.algorithm() == algorithm && c.protocol() == protocol
                                    ? 1e6
                                    : Double.POSITIVE_INFINITY))
                    .toList();
        planner(0, new Planner.Rules(AlgorithmFilter.ALL, tuner, CtaLimits.NONE, LOG))
            .plan(call, 1000);
        assertEquals(algorithm, kernels.last().collective().algorithm());
        assertEquals(protocol, kernels.last().collective().protocol());
      }
    }
  }

  @Test
  void anOperatorOfAUserTakesAnAlgorithmThatReducesByIt() {
    kernels.byOperator.retainAll(List.of(Algorithm.RING));
    ReductionOperator operator = ReductionOperator.preMulSum(DataType.FLOAT32, 2.0);
    long call = shape(Operation.ALL_REDUCE, RedOp.SUM, 0);
    KernelPlan plan = planner.plan(call, 1, operator);
    assertEquals(Algorithm.RING, kernels.last().collective().algorithm());
    assertSame(operator, kernels.last().operator());
    assertSame(plan, planner.plan(call, 1, operator));
    assertNotSame(plan, planner.plan(call, 1));
  }

  /** Sends and receives of one rank: peers, places in the launch's buffers, and their order. */
  private String messages(int rank, Operation operation, int root) {
    planner(rank, NO_RULES).plan(shape(operation, RedOp.SUM, root), 2);
    StringBuilder text = new StringBuilder();
    for (P2pWork work : kernels.last().messages()) {
      assertEquals(8, work.bytes());
      assertEquals(null, work.buffer());
      text.append(work.kind() == P2pWork.Kind.SEND ? ">" : "<")
          .append(work.peer())
          .append("@")
          .append(work.offset())
          .append(" ");
    }
    return text.toString().trim();
  }

  /** In an all-to-all, each rank sends to the one that receives from it at the same time. */
  @Test
  void operationsWithoutAlgorithmsAreSendsAndReceives() {
    assertEquals(">3@0", messages(1, Operation.SEND, 3));
    assertEquals("<3@0", messages(1, Operation.RECV, 3));
    assertEquals(
        ">1@8 <1@8 >2@16 <0@0 >3@24 <3@24 >0@0 <2@16", messages(1, Operation.ALL_TO_ALL, 0));
    assertEquals(">2@0", messages(1, Operation.GATHER, 2));
    assertEquals(">2@0 <0@0 <1@8 <2@16 <3@24", messages(2, Operation.GATHER, 2));
    assertEquals("<2@0", messages(1, Operation.SCATTER, 2));
    assertEquals(">0@0 >1@8 >2@16 >3@24 <2@0", messages(2, Operation.SCATTER, 2));
  }

  @Test
  void bothEndsOfAMessageChooseItsProtocolByItsBytes() {
    for (long bytes : new long[] {1, 512, 513, 1 << 20, 64 << 20}) {
      List<P2pWork> ends = new ArrayList<>();
      for (Operation operation : List.of(Operation.SEND, Operation.RECV)) {
        planner.plan(CallShape.of(operation, DataType.INT8, RedOp.SUM, 1), bytes);
        ends.addAll(kernels.last().messages());
      }
      assertEquals(ends.get(0).protocol(), ends.get(1).protocol());
      assertEquals(ends.get(0).signature(), ends.get(1).signature());
      Protocol expected = bytes <= 512 ? Protocol.LL128 : Protocol.SIMPLE;
      assertEquals(expected, ends.get(0).protocol(), bytes + " bytes");
    }
  }

  @Test
  void copyEnginesCarryLargeMessagesWhereTheyAreAskedFor() {
    kernels.copyEngines = true;
    AlgorithmFilter asked = AlgorithmFilter.parse("sendrecv:CopyEngine", "");
    for (boolean demands : new boolean[] {false, true}) {
      Planner.Rules rules =
          new Planner.Rules(
              demands ? asked : AlgorithmFilter.ALL, TunerHook.NONE, CtaLimits.NONE, LOG);
      Planner sending = planner(0, rules);
      for (long bytes : new long[] {(1 << 20) - 1, 1 << 20}) {
        sending.plan(CallShape.of(Operation.SEND, DataType.INT8, RedOp.SUM, 1), bytes);
        assertEquals(
            demands && bytes == 1 << 20,
            kernels.last().messages().get(0).copies(),
            bytes + " bytes");
      }
    }
  }

  private void assertHolds(int most) {
    long held = kernels.plans.stream().filter(plan -> plan.discards() == 0).count();
    assertEquals(true, held <= most, held + " plans are held");
    assertEquals(
        kernels.plans.size() - held,
        kernels.plans.stream().mapToInt(FakeKernels.Plan::discards).sum());
  }
}
