package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.text.MessageFormat;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** Groups launch all of their calls or none, and never wait for what they launch later. */
@Timeout(600)
final class GroupTest {
  private static final DataType F32 = DataType.FLOAT32;

  /** Throws what Java would have declared. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void sneak(Throwable error) throws E {
    throw (E) error;
  }

  private static void sum(Ranks ranks, int rank, DeviceMemory data) {
    ranks
        .communicators
        .get(rank)
        .allReduce(data, data, data.size() / 4, F32, RedOp.SUM, ranks.streams.get(rank));
  }

  /** A thread's next group runs, and nothing that was called before it. */
  private static void assertNextGroupRuns(Ranks ranks) {
    try (DeviceMemory a = Ranks.floats(4, i -> 1);
        DeviceMemory b = Ranks.floats(4, i -> 2)) {
      Group.run(
          () -> {
            sum(ranks, 0, a);
            sum(ranks, 1, b);
          });
      ranks.streams.forEach(stream -> stream.synchronize(Duration.ofSeconds(30)));
      assertEquals(3, Ranks.floats(a)[3]);
      assertEquals(3, Ranks.floats(b)[3]);
    }
  }

  /** Runs on a thread of its own, and waits for its end. */
  private static void elsewhere(Runnable calls) throws Exception {
    FutureTask<Void> task = new FutureTask<>(calls, null);
    new Thread(task).start();
    task.get(300, TimeUnit.SECONDS);
  }

  @Test
  void aGroupHoldsTheCallsOfItsThreadAlone() throws Exception {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory a = Ranks.floats(4, i -> 1);
        DeviceMemory b = Ranks.floats(4, i -> 2)) {
      for (int round = 0; round < 2; round++) {
        Group.start();
        sum(ranks, 0, a);
        assertTrue(ranks.streams.get(0).isIdle());
        assertEquals(1, Group.operations());
        elsewhere(
            () -> {
              sum(ranks, 1, b);
              assertEquals(0, Group.operations());
            });
        assertFalse(ranks.streams.get(1).isIdle());
        Group.end();
        assertEquals(0, Group.operations());
        ranks.streams.forEach(stream -> stream.synchronize(Duration.ofSeconds(30)));
        assertEquals(3 << round, Ranks.floats(a)[3]);
        elsewhere(() -> assertNextGroupRuns(ranks)); // now two threads have had groups
        assertNextGroupRuns(ranks);
      }
    }
  }

  @Test
  void aCheckedExceptionEndsTheGroup() {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory data = Ranks.floats(4, i -> 1)) {
      IOException error = new IOException("sneaked");
      Runnable calls =
          () -> {
            sum(ranks, 0, data);
            GroupTest.<RuntimeException>sneak(error);
          };
      assertSame(error, assertThrows(IOException.class, () -> Group.run(calls)));
      assertTrue(ranks.streams.get(0).isIdle());
      assertNextGroupRuns(ranks);
    }
  }

  @Test
  void anInnerGroupThatThrowsFailsTheOuterOne() {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory data = Ranks.floats(4, i -> 1)) {
      IllegalStateException first = new IllegalStateException("the first");
      Runnable inner =
          () -> {
            throw first;
          };
      Runnable calls =
          () -> {
            sum(ranks, 0, data);
            assertThrows(IllegalStateException.class, () -> Group.run(inner));
            sum(ranks, 1, data);
          };
      InvalidUsageException error =
          assertThrows(InvalidUsageException.class, () -> Group.run(calls));
      assertEquals(ErrorId.GROUP, error.id());
      assertSame(first, error.getCause());
      assertTrue(ranks.streams.stream().allMatch(DeviceStream::isIdle));
      assertNextGroupRuns(ranks);
    }
  }

  @Test
  void aCallThatThrowsFailsItsGroupAlsoWhereItIsCaught() {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory data = Ranks.floats(4, i -> 1)) {
      Communicator comm = ranks.communicators.get(0);
      DeviceStream stream = ranks.streams.get(0);
      List<Runnable> wrong =
          List.of(
              () -> comm.allGatherV(data, data, new long[] {1, -1}, new long[] {0, 1}, F32, stream),
              () ->
                  comm.allGatherV(data, data, new long[] {1, 100}, new long[] {0, 1}, F32, stream),
              () -> comm.reduceScatterV(data, data, new long[] {1}, F32, RedOp.SUM, stream),
              () -> comm.gatherV(data, data, new long[] {1, 100}, null, F32, 0, stream),
              () -> comm.scatterV(data, data, new long[] {1, 1}, null, F32, -1, stream),
              () -> comm.broadcast(data, data, 1, F32, 7, stream),
              () -> comm.allReduce(data, null, 1, F32, RedOp.SUM, stream));
      for (Runnable call : wrong) {
        Group.start();
        sum(ranks, 0, data);
        NcclException first = assertThrows(InvalidArgumentException.class, call::run);
        assertThrows(
            InvalidArgumentException.class, () -> comm.broadcast(data, data, -1, F32, 0, stream));
        sum(ranks, 1, data);
        NcclException error = assertThrows(InvalidArgumentException.class, Group::end);
        assertSame(first, error.getCause());
        assertEquals(first.id(), error.id());
        assertTrue(error.problem().startsWith(first.problem()), error.problem());
        assertTrue(ranks.streams.stream().allMatch(DeviceStream::isIdle));
        assertNextGroupRuns(ranks);
      }
    }
  }

  /** Whose error is told by the call already, and by the end of the group. */
  private static void assertFailsTheGroup(Ranks ranks, ErrorId id, Runnable wrong) {
    try (DeviceMemory data = Ranks.floats(4, i -> 1)) {
      Group.start();
      sum(ranks, 0, data);
      sum(ranks, 1, data);
      NcclException first = assertThrows(NcclException.class, wrong::run);
      NcclException error = assertThrows(NcclException.class, Group::end);
      assertEquals(id, first.id());
      assertSame(first, error.getCause());
      assertTrue(ranks.streams.stream().allMatch(DeviceStream::isIdle));
      assertNextGroupRuns(ranks);
    }
  }

  @Test
  void aClosedCommunicatorAndOneSidedCallsFailTheGroup() {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory data = Ranks.floats(4, i -> 1)) {
      DeviceStream stream = ranks.streams.get(0);
      Communicator closed = Communicator.initAll(List.of(Devices.host())).get(0);
      closed.close();
      assertFailsTheGroup(
          ranks, ErrorId.CLOSED, () -> closed.allReduce(data, data, 4, F32, RedOp.SUM, stream));
      assertFailsTheGroup(ranks, ErrorId.CLOSED, () -> closed.registerWindow(data));
      assertFailsTheGroup(
          ranks, ErrorId.HANDLE, () -> ranks.communicators.get(0).signal(1, stream));
    }
  }

  /** It would complete before the operations. */
  @Test
  void runAsyncIsRefusedInAGroup() {
    try (Ranks ranks = new Ranks(2)) {
      DeviceStream stream = ranks.streams.get(0);
      Group.start();
      CompletionException refused =
          assertThrows(CompletionException.class, () -> Group.runAsync(() -> {}, stream).join());
      Group.end();
      assertEquals(ErrorId.GROUP, ((NcclException) refused.getCause()).id());
      Group.runAsync(() -> {}, stream).join();
    }
  }

  @Test
  void startsInsideRunHaveTheirEnds() {
    try (Ranks ranks = new Ranks(2)) {
      InvalidUsageException open =
          assertThrows(InvalidUsageException.class, () -> Group.run(Group::start));
      assertTrue(open.problem().startsWith("1 groups that are started"), open.problem());
      assertNextGroupRuns(ranks);
      Runnable endsTooOften =
          () -> {
            Group.end();
            Group.end();
          };
      Group.start();
      assertThrows(InvalidUsageException.class, () -> Group.run(endsTooOften));
      assertNextGroupRuns(ranks);
    }
  }

  /** Many more operations than a stream of the host holds. */
  @Test
  void oneThreadLaunchesLargeGroupsOfSeveralRanks() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(60));
    int nRanks = 4;
    int operations = 5000;
    try (Ranks ranks = new Ranks(nRanks, config)) {
      List<DeviceMemory> data = new ArrayList<>();
      for (int rank = 0; rank < nRanks; rank++) {
        int value = rank;
        data.add(Ranks.floats(1, i -> value));
      }
      for (int group = 0; group < 2; group++) {
        Group.run(
            () -> {
              for (int o = 0; o < operations; o++) {
                for (int rank = 0; rank < nRanks; rank++) {
                  ranks
                      .communicators
                      .get(rank)
                      .allReduce(
                          data.get(rank),
                          data.get(rank),
                          1,
                          F32,
                          o == 0 ? RedOp.SUM : RedOp.AVG,
                          ranks.streams.get(rank));
                }
              }
            });
      }
      ranks.streams.forEach(DeviceStream::synchronize);
      data.forEach(memory -> assertEquals(24, Ranks.floats(memory)[0]));
      data.forEach(DeviceMemory::close);
    }
  }

  @Test
  void aStreamThatIsSynchronizedTooEarlyIsNamed() throws Exception {
    Logger logger = Logger.getLogger("org.nccl4j.COLL");
    List<String> said = new CopyOnWriteArrayList<>();
    logger.setFilter(
        line -> {
          said.add(new MessageFormat(line.getMessage()).format(line.getParameters()));
          return false;
        });
    CommunicatorConfig config = CommunicatorConfig.defaults().withName("early");
    try (Ranks ranks = new Ranks(1, config);
        DeviceMemory data = Ranks.floats(4, i -> 1)) {
      ranks.run(
          (comm, stream) -> {
            Group.run(stream::synchronize);
            assertEquals(List.of(), said);
            Group.run(
                () -> {
                  stream.synchronize();
                  comm.allReduce(data, data, 4, F32, RedOp.SUM, stream);
                  stream.synchronize();
                  stream.synchronize(Duration.ofSeconds(1));
                });
            stream.synchronize();
          });
      assertEquals(1, said.size(), said::toString);
      assertTrue(said.get(0).contains("all_reduce of rank 0 of communicator early"), said.get(0));
      assertTrue(said.get(0).contains("a group launches its calls at its end"), said.get(0));
    } finally {
      logger.setFilter(null);
    }
  }

  /** Communicators of the same ranks may share streams; so may one rank's calls of all kinds. */
  @Test
  void aRankAndSeveralCommunicatorsShareStreams() {
    try (Ranks ranks = new Ranks(2);
        Ranks others = new Ranks(2);
        DeviceMemory a = Ranks.floats(4, i -> 1);
        DeviceMemory b = Ranks.floats(4, i -> 2)) {
      List<Communicator> splits =
          Ranks.all(ranks.communicators, c -> c.split(0, 1 - c.rank()).orElseThrow());
      Group.run(
          () -> {
            for (int rank = 0; rank < 2; rank++) {
              DeviceMemory data = rank == 0 ? a : b;
              DeviceStream stream = ranks.streams.get(rank);
              CallOptions options = CallOptions.defaults().withMaxCtas(1);
              List<Communicator> mine =
                  List.of(
                      ranks.communicators.get(rank),
                      ranks.communicators.get(rank).withOptions(options),
                      others.communicators.get(rank),
                      splits.get(rank));
              for (Communicator comm : mine) {
                comm.allReduce(data, data, 4, F32, RedOp.SUM, stream);
              }
            }
          });
      ranks.streams.forEach(DeviceStream::synchronize);
      assertEquals(24, Ranks.floats(a)[0]);
      assertEquals(24, Ranks.floats(b)[3]);
      splits.forEach(Communicator::close);
    }
  }

  /** A group that is only simulated is not launched by an end inside it. */
  @Test
  void aSimulatedGroupThatIsNotBalancedLaunchesNothing() {
    try (Ranks ranks = new Ranks(2);
        DeviceMemory a = Ranks.floats(4, i -> 1);
        DeviceMemory b = Ranks.floats(4, i -> 2)) {
      for (Runnable unbalanced : List.<Runnable>of(Group::end, Group::start)) {
        InvalidUsageException e =
            assertThrows(
                InvalidUsageException.class,
                () ->
                    Group.simulate(
                        () -> {
                          sum(ranks, 0, a);
                          sum(ranks, 1, b);
                          unbalanced.run();
                        }));
        assertEquals(ErrorId.GROUP, e.id());
      }
      ranks.streams.forEach(stream -> stream.synchronize(Duration.ofSeconds(30)));
      assertEquals(1, Ranks.floats(a)[3]);
      assertNextGroupRuns(ranks);
    }
  }
}
