package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.text.MessageFormat;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/** Ranks whose settings would have them choose different ways are told so, and do not start. */
@Timeout(600)
class ChoosingSettingsTest {
  private static List<CompletableFuture<Communicator>> make(CommunicatorConfig... configs) {
    UniqueId id = UniqueId.create();
    return IntStream.range(0, configs.length)
        .mapToObj(
            rank ->
                Communicator.initRankAsync(configs.length, id, rank, Devices.host(), configs[rank]))
        .toList();
  }

  @ParameterizedTest
  @CsvSource({
    "NCCL_ALGO, Ring, Ring",
    "NCCL_PROTO, ^LL, ^LL",
    "NCCL4J_DETERMINISM, SIZE_INVARIANT, SIZE_INVARIANT"
  })
  void allRanksNameTheSettingAndBothValues(String name, String value, String shown) {
    CommunicatorConfig plain = CommunicatorConfig.defaults();
    for (CompletableFuture<Communicator> rank : make(plain, plain, plain.with(name, value))) {
      var thrown = assertThrows(CompletionException.class, rank::join);
      String message = thrown.getCause().getMessage(); // a rank may hear it from another
      assertTrue(message.contains("ranks 0 and 2 have different values of " + name), message);
      assertTrue(message.contains("'" + shown + "'"), message);
      assertTrue(message.contains("give all ranks the same value"), message);
    }
  }

  /** On connections of its own or on those of the communicator that is split. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void ranksOfASplitTooAndTheRestGoesOn(boolean share) {
    CommunicatorConfig plain = CommunicatorConfig.defaults();
    CommunicatorConfig split = CommunicatorConfig.defaults().withSplitShare(share);
    List<Communicator> all =
        make(plain, plain, plain, plain).stream().map(CompletableFuture::join).toList();
    List<CompletableFuture<Optional<Communicator>>> splits =
        all.stream()
            .map(
                rank ->
                    rank.splitAsync(
                        rank.rank() / 2,
                        0,
                        rank.rank() == 3 ? split.with("NCCL_ALGO", "Tree") : split))
            .toList();
    for (int rank = 2; rank < 4; rank++) {
      var thrown = assertThrows(CompletionException.class, splits.get(rank)::join);
      String message = thrown.getCause().getMessage();
      assertTrue(message.contains("ranks 2 and 3 have different values of NCCL_ALGO"), message);
    }
    for (int rank = 0; rank < 2; rank++) {
      splits.get(rank).join().orElseThrow().close();
    }
    all.forEach(rank -> assertTrue(rank.asyncError().isEmpty()));
    all.forEach(Communicator::close);
  }

  @Test
  void howANameIsWrittenDoesNotMatter() {
    CommunicatorConfig plain = CommunicatorConfig.defaults();
    make(plain.with("NCCL_ALGO", "Ring,Tree"), plain.with("NCCL_ALGO", "ring, tree"))
        .forEach(rank -> rank.join().close());
  }

  /** Ranks that ask for nothing are told nothing; a call tells it once, whatever its size. */
  @Test
  void aCallTellsThatTheSettingsLeaveNoAlgorithmForIt() throws Exception {
    String value = "PAT,Rails"; // which no other test has
    List<String> lines = new CopyOnWriteArrayList<>();
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord line) {
            String text = MessageFormat.format(line.getMessage(), line.getParameters());
            if (text.contains("NCCL_ALGO=" + value)) {
              lines.add(text);
            }
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    Logger logger = Logger.getLogger("org.nccl4j.TUNING");
    logger.addHandler(handler);
    try (Ranks ranks = new Ranks(2, CommunicatorConfig.defaults().with("NCCL_ALGO", value))) {
      ranks.communicators.get(0).chosenAlgorithm(Operation.ALL_REDUCE, 8, DataType.FLOAT32);
      assertEquals(List.of(), lines);
      for (int count : List.of(8, 16)) {
        ranks.run(
            (comm, stream) -> {
              try (DeviceMemory data = Ranks.floats(count, i -> 1)) {
                comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
                stream.synchronize();
              }
            });
      }
    } finally {
      logger.removeHandler(handler);
    }
    assertEquals(1, lines.size(), lines.toString());
    assertTrue(lines.get(0).contains("allows does all_reduce here; it uses "), lines.get(0));
  }
}
