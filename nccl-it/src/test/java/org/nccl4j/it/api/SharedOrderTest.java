package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.RedOp;

/**
 * Ranks that call communicators which share connections in different orders, on the host device.
 */
@Timeout(600)
class SharedOrderTest {

  private static List<Communicator> ranks() {
    return Communicator.initAll(
        Collections.nCopies(3, Devices.host()),
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(60)));
  }

  private static List<Communicator> split(List<Communicator> ranks) {
    return Ranks.all(ranks, rank -> rank.split(0, -rank.rank()).orElseThrow());
  }

  /**
   * Alike in shape, so that nothing waits: each takes the other's data, which must not go unseen.
   */
  @ParameterizedTest
  @ValueSource(ints = {2, 5000, 1 << 20})
  void whatGotTheDataOfAnotherIsNamed(int count) {
    List<Communicator> ranks = ranks();
    List<Communicator> first = split(ranks);
    List<Communicator> second = split(ranks);
    List<String> said =
        Ranks.all(
            ranks,
            rank -> {
              List<Communicator> both = List.of(first.get(rank.rank()), second.get(rank.rank()));
              try (DeviceMemory data = rank.device().allocate(4L * count);
                  DeviceStream stream = rank.device().createStream()) {
                alternate(both, 0, data, count, stream);
                stream.synchronize();
                OrderMismatchException error =
                    assertThrows(
                        OrderMismatchException.class,
                        () -> {
                          for (int i = 0; i < 4; i++) {
                            alternate(both, rank.rank() == 1 ? 1 : 0, data, count, stream);
                          }
                          stream.synchronize();
                        });
                return error.getMessage();
              }
            });
    for (String message : said) {
      assertTrue(message.contains("share connections in different orders"), message);
      assertTrue(message.contains("withSplitShare(false)"), message);
    }
    for (List<Communicator> each : List.of(second, first, ranks)) {
      each.forEach(comm -> comm.close(Duration.ofSeconds(5)));
    }
  }

  private static void alternate(
      List<Communicator> both, int begin, DeviceMemory data, int count, DeviceStream stream) {
    for (int i = 0; i < 2; i++) {
      both.get((i + begin) % 2).allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
    }
  }

  /** In one order nothing is said, whoever is ahead and whatever the sizes. */
  @Test
  void inOneOrderNothingIsSaid() {
    List<Communicator> ranks = ranks();
    List<Communicator> first = split(ranks);
    List<Communicator> second = split(first);
    Ranks.all(
        ranks,
        rank -> {
          List<Communicator> three = List.of(rank, first.get(rank.rank()), second.get(rank.rank()));
          try (DeviceMemory data = rank.device().allocate(4L << 16);
              DeviceStream stream = rank.device().createStream()) {
            for (int i = 0; i < 3000; i++) {
              Communicator next = three.get((i * i + i / 7) % 3);
              int count = 1 << i % 17;
              if (i % 5 == 0) {
                next.broadcast(data, data, count, DataType.FLOAT32, i % 3, stream);
              } else {
                next.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
              }
              if (i % 50 == 17 * rank.rank()) {
                stream.synchronize();
              }
            }
            stream.synchronize();
          }
          return 0;
        });
    for (List<Communicator> each : List.of(second, first, ranks)) {
      each.forEach(Communicator::close);
    }
  }
}
