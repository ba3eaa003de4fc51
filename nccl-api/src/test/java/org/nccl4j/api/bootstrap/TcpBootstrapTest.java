package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.spi.Connector;

class TcpBootstrapTest {
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 8, 64})
  void everyRankGetsEverybodysBytes(int nRanks) {
    List<Ranks.Ended<List<List<byte[]>>>> all =
        Ranks.together(
            nRanks,
            bootstrap -> {
              List<List<byte[]>> rounds = new ArrayList<>();
              for (int round = 0; round < 3; round++) {
                rounds.add(bootstrap.allGather(bytes(bootstrap.rank(), round)));
                bootstrap.barrier();
              }
              return rounds;
            });
    for (Ranks.Ended<List<List<byte[]>>> rank : all) {
      for (int round = 0; round < 3; round++) {
        List<byte[]> got = rank.get().get(round);
        assertEquals(nRanks, got.size());
        for (int from = 0; from < nRanks; from++) {
          assertArrayEquals(bytes(from, round), got.get(from));
        }
      }
    }
  }

  @Test
  void carriesAMebibyteOfEachRank() {
    List<Ranks.Ended<List<byte[]>>> all =
        Ranks.together(
            4,
            bootstrap -> {
              byte[] mine = new byte[1 << 20];
              new Random(bootstrap.rank()).nextBytes(mine);
              return bootstrap.allGather(mine);
            });
    for (int from = 0; from < 4; from++) {
      byte[] expected = new byte[1 << 20];
      new Random(from).nextBytes(expected);
      for (Ranks.Ended<List<byte[]>> rank : all) {
        assertArrayEquals(expected, rank.get().get(from));
      }
    }
  }

  /** Ranks that connect late call each other with two handles of the largest size. */
  @Test
  void aCallAndItsAnswerHoldTwoHandles() {
    byte[] handles = new byte[2 * Connector.HANDLE_BYTES + 1024];
    new Random(1).nextBytes(handles);
    List<Ranks.Ended<byte[]>> all =
        Ranks.together(
            2,
            bootstrap -> {
              bootstrap.onCall((request, answer) -> answer.accept(request));
              byte[] other =
                  bootstrap.allGather(bootstrap.meetingPoint()).get(1 - bootstrap.rank());
              byte[] got = bootstrap.call(other, handles).orTimeout(30, TimeUnit.SECONDS).join();
              bootstrap.barrier();
              return got;
            });
    all.forEach(rank -> assertArrayEquals(handles, rank.get()));
  }

  @Test
  void ranksCompareTheVersionThatTheModuleHas() {
    String version = Bootstrap.class.getModule().getDescriptor().rawVersion().orElseThrow();
    assertEquals(version, ProcessIdentity.LIBRARY);
  }

  /** Lengths differ by rank and round; one is empty. */
  private static byte[] bytes(int rank, int round) {
    byte[] bytes = new byte[(rank * 37 + round * 11) % 300];
    new Random(rank * 31L + round).nextBytes(bytes);
    return bytes;
  }
}
