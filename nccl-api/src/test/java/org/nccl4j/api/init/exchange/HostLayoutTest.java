package org.nccl4j.api.init.exchange;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HostLayoutTest {
  private static HostLayout hosts(int hosts, int ranksAHost) {
    List<List<Integer>> ranks = new ArrayList<>();
    for (int host = 0; host < hosts; host++) {
      List<Integer> mine = new ArrayList<>();
      for (int rank = 0; rank < ranksAHost; rank++) {
        mine.add(host * ranksAHost + rank);
      }
      ranks.add(mine);
    }
    return new HostLayout(ranks);
  }

  /** One host's as ever; of several the most of one, unless there are far more elsewhere. */
  @ParameterizedTest
  @CsvSource({"1,1,1", "1,2,2", "1,8,8", "2,1,2", "2,8,8", "8,1,2", "31,8,31", "254,1,32"})
  void slotsAreMadeForTheRanksThatOneDeviceHolds(int hosts, int ranksAHost, int sharing) {
    assertEquals(sharing, hosts(hosts, ranksAHost).sharingSlots());
  }
}
