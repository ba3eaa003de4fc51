package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Channels for the cards of hosts, and the data that they let through. */
class ChannelBandwidthTest {
  @ParameterizedTest
  @CsvSource({
    "4, 12, 1, 4",
    "4, 50, 1, 10",
    "16, 100, 1, 20",
    "32, 48, 1, 16", // 16 cards of 25 Gbit/s, each in two rings
    "64, 90, 1, 18",
    "64, 400, 1, 80",
    "40, 48, 40, 40", // the user's
    "64, 48, 24, 24",
    "8, 48, 24, 10"
  })
  void manyRingsOfSlowCardsAreNotMoreChannels(
      int rings, double gigabytes, int asked, int expected) {
    assertEquals(expected, ChannelBandwidth.channels(rings, gigabytes, asked));
  }

  /** Of the whole data a rank sends 15/16 in a ring, and 2 wholes in trees of two hosts. */
  @Test
  void anAlgorithmGetsWhatItsChannelsCarry() {
    ChannelBandwidth two = new ChannelBandwidth(16, 2, 10, 4);
    assertEquals(52 / (15.0 / 16), two.most(Operation.ALL_GATHER, Algorithm.RING), 1e-9);
    assertEquals(26, two.most(Operation.ALL_REDUCE, Algorithm.TREE), 1e-9);
    assertEquals(20.8 / 15, two.most(Operation.ALL_REDUCE, Algorithm.ONE_SHOT), 1e-9);
    assertEquals(8 * 52, two.ofHeads(8), 1e-9);
  }

  /** Channels of a kernel are 64 at most, however many messages there are. */
  @Test
  void messagesShareAllChannelsOfARank() {
    ChannelBandwidth pairs = new ChannelBandwidth(24, 3, 32, 21);
    assertEquals(21 * 5.2, pairs.ofMessages(1), 1e-9);
    assertEquals(42 * 5.2, pairs.ofMessages(2), 1e-9);
    assertEquals(64 * 5.2, pairs.ofMessages(16), 1e-9);
  }
}
