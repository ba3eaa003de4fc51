package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/** A rank that closes before the others have called their last operation is not waited for. */
@Timeout(600)
class EarlyCloseTest {
  /** Far beyond the time that a test may take. */
  static final CommunicatorConfig PATIENT =
      CommunicatorConfig.defaults()
          .withName("patient")
          .withOperationTimeout(Duration.ofMinutes(10));

  private static final int RANKS = 3;

  /** The connections of the ranks. */
  enum Way {
    MEMORY,
    SOCKETS;

    Ranks make() {
      return this == MEMORY ? new Ranks(RANKS, PATIENT) : Ranks.onHosts("ABC", PATIENT);
    }
  }

  private static void sum(Communicator communicator, DeviceMemory data, DeviceStream stream) {
    communicator.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
  }

  @ParameterizedTest
  @EnumSource(Way.class)
  void whoWaitsForItInACollectiveFails(Way way) throws Exception {
    try (Ranks ranks = way.make()) {
      ranks.run(
          (communicator, stream) -> {
            try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
              sum(communicator, data, stream);
              sum(communicator, data, stream);
              if (communicator.rank() == 1) {
                stream.synchronize();
                communicator.close();
                return;
              }
              // A slow rank hears of it before it has seen the end of its second collective.
              NcclException error =
                  assertThrows(
                      NcclException.class,
                      () -> {
                        stream.synchronize();
                        sum(communicator, data, stream);
                        stream.synchronize();
                      });
              checkRankOneMissedCollectiveThree(error);
            }
          });
    }
  }

  /** It lives on, so what tells is the closing, not the end of the process. */
  @Test
  void whoWaitsForAnotherProcessFails() throws Exception {
    UniqueId id = UniqueId.create();
    List<String> command = RankJvm.command();
    command.addAll(List.of(ClosingRank.class.getName(), id.toString()));
    Process other =
        new ProcessBuilder(command).inheritIO().redirectInput(ProcessBuilder.Redirect.PIPE).start();
    try (Communicator communicator = Communicator.initRank(2, id, 0, Devices.host(), PATIENT);
        DeviceStream stream = communicator.device().createStream();
        DeviceMemory data = Ranks.floats(16, i -> 1)) {
      for (int n = 0; n < 3; n++) {
        sum(communicator, data, stream);
      }
      NcclException error = assertThrows(NcclException.class, stream::synchronize);
      assertEquals(ErrorId.RANK_CLOSED, error.id(), error.toString());
      checkRankOneMissedCollectiveThree(error);
      assertTrue(other.isAlive());
    } finally {
      other.destroyForcibly();
    }
  }

  /** Another rank may find it first. */
  private static void checkRankOneMissedCollectiveThree(NcclException error) {
    assertTrue(
        error.id() == ErrorId.RANK_CLOSED || error.id() == ErrorId.RANK_FAILED, error.toString());
    assertTrue(
        error
            .problem()
            .contains(
                "rank 1 closed communicator patient after collective 2, before collective 3"
                    + " (all_reduce of 16 float (sum)), which rank"),
        error.problem());
  }

  @Test
  void whoWaitsForAMessageOfItFails() throws Exception {
    try (Ranks ranks = Way.MEMORY.make()) {
      ranks.run(
          (communicator, stream) -> {
            try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
              if (communicator.rank() == 1) {
                communicator.send(data, 16, DataType.FLOAT32, 0, stream);
                stream.synchronize();
                communicator.close();
              } else if (communicator.rank() == 0) {
                communicator.recv(data, 16, DataType.FLOAT32, 1, stream);
                stream.synchronize();
                NcclException error =
                    assertThrows(
                        NcclException.class,
                        () -> {
                          communicator.recv(data, 16, DataType.FLOAT32, 1, stream);
                          stream.synchronize();
                        });
                assertEquals(ErrorId.RANK_CLOSED, error.id(), error.toString());
                assertTrue(
                    error.problem().contains("after 1 sends to rank 0, which has called receive 2"),
                    error.problem());
              }
            }
          });
    }
  }

  /** For longer than the others take to look at who has closed. */
  @ParameterizedTest
  @EnumSource(Way.class)
  void messagesAmongTheOthersGoOn(Way way) throws Exception {
    try (Ranks ranks = way.make();
        DeviceMemory data = Ranks.floats(16, i -> i);
        DeviceMemory got = Ranks.floats(16, i -> 0)) {
      ranks.run(
          (communicator, stream) -> {
            try (DeviceMemory own = Ranks.floats(16, i -> 1)) {
              sum(communicator, own, stream);
              stream.synchronize();
            }
          });
      ranks.communicators.get(0).close();
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(200);
      while (System.nanoTime() < end) {
        Group.run(
            () -> {
              ranks.communicators.get(1).send(data, 16, DataType.FLOAT32, 2, ranks.streams.get(1));
              ranks.communicators.get(2).recv(got, 16, DataType.FLOAT32, 1, ranks.streams.get(2));
            });
        ranks.streams.get(1).synchronize();
        ranks.streams.get(2).synchronize();
      }
      assertEquals(5, Ranks.floats(got)[5]);
      assertEquals(Optional.empty(), ranks.communicators.get(1).asyncError());
      assertEquals(Optional.empty(), ranks.communicators.get(2).asyncError());
    }
  }

  /** The parent's ranks go on, and their connections are the child's. */
  @Test
  void closingASplitEndsNothingElse() throws Exception {
    try (Ranks ranks = Way.MEMORY.make()) {
      List<Communicator> splits = Ranks.all(ranks.communicators, c -> c.split(0, c.rank()).get());
      ranks.run(
          (communicator, stream) -> {
            try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
              try (Communicator split = splits.get(communicator.rank())) {
                sum(split, data, stream);
                stream.synchronize();
              }
              for (int n = 0; n < 3; n++) {
                sum(communicator, data, stream);
              }
              stream.synchronize();
            }
          });
      ranks.communicators.forEach(c -> assertEquals(Optional.empty(), c.asyncError()));
    }
  }

  /** It has thrown before it called anything, while the others were still being made. */
  @Test
  void whoClosesAtOnceIsNamed() throws Exception {
    try (Ranks ranks = Way.SOCKETS.make()) {
      ranks.communicators.get(2).close();
      List<FutureTask<Void>> tasks =
          ranks.start(
              (communicator, stream) -> {
                if (communicator.rank() != 2) {
                  try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
                    sum(communicator, data, stream);
                    stream.synchronize();
                  }
                }
              });
      Exception error =
          assertThrows(Exception.class, () -> tasks.get(0).get(300, TimeUnit.SECONDS));
      assertTrue(
          error.getCause().getMessage().contains("rank 2 closed communicator patient before"),
          error.getCause().toString());
      tasks.get(2).get(300, TimeUnit.SECONDS);
    }
  }
}
