package org.nccl4j.api.plan.cost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

class TunedTableTest {
  @TempDir Path folder;

  private TunedTable table(String... lines) throws IOException {
    Path file = folder.resolve("times");
    Files.write(file, List.of(lines));
    return TunedTable.read(file.toString()).orElseThrow();
  }

  private static CostModel costs(Device.Kind kind, String model, int hosts, TunedTable table) {
    return new CommunicatorProfile(
            2,
            kind,
            model,
            true,
            true,
            new RankPlacement(hosts, 2 / hosts, hosts > 1),
            Optional.empty(),
            Optional.ofNullable(table))
        .costs();
  }

  private static String choice(CostModel costs, long bytes) {
    AlgorithmChoice choice =
        new AlgorithmSelector(costs, AlgorithmFilter.ALL)
            .choose(Operation.ALL_REDUCE, bytes, DataType.FLOAT32, RedOp.SUM);
    return choice.algorithm().label() + " " + choice.protocol().label();
  }

  @Test
  void theFastestThatWasMeasuredIsChosen() throws IOException {
    TunedTable table =
        table(
            "# a remark",
            "device host",
            "2 AllReduce Tree LL 128:0.01 65536:0.02 1048576:9999",
            "2 AllReduce Ring Simple 128:0.5 65536:0.6 1048576:1",
            "3 AllReduce Ring LL 128:0.001 1048576:0.001");
    CostModel costs = costs(Device.Kind.HOST, "host", 1, table);
    assertEquals("Tree LL", choice(costs, 128));
    assertEquals("Tree LL", choice(costs, 4096));
    assertEquals("Ring Simple", choice(costs, 1 << 20));
    assertTrue(costs.source().contains("times"), costs.source());
    CostModel without = costs(Device.Kind.HOST, "host", 1, null);
    AlgorithmChoice ring = new AlgorithmChoice(Algorithm.RING, Protocol.SIMPLE, 1);
    assertEquals(
        without.channels(Operation.ALL_REDUCE, ring, 1 << 20),
        costs.channels(Operation.ALL_REDUCE, ring, 1 << 20));
    assertEquals(without.smallSendProtocol(), costs.smallSendProtocol());
  }

  @Test
  void aTableOfAnotherDeviceOrForOneHostAloneIsNotUsed() throws IOException {
    TunedTable table = table("device NVIDIA H200", "2 AllReduce Tree LL 128:0.01 1048576:0.02");
    assertEquals("Tree LL", choice(costs(Device.Kind.CUDA, "NVIDIA H200", 1, table), 1024));
    for (CostModel costs :
        new CostModel[] {
          costs(Device.Kind.CUDA, "NVIDIA H100", 1, table),
          costs(Device.Kind.CUDA, "NVIDIA H200", 2, table),
          costs(Device.Kind.HOST, "host", 1, table)
        }) {
      assertTrue(!costs.source().contains("times"), costs.source());
    }
  }

  private static CommunicatorProfile onHosts(TunedTable table, List<List<Integer>> hosts) {
    int nRanks = hosts.stream().mapToInt(List::size).sum();
    return new CommunicatorProfile(
        nRanks,
        Device.Kind.HOST,
        "host",
        false,
        false,
        new RankPlacement(hosts, /* carried= */ true, 1, /* lines= */ false, "Socket"),
        Optional.empty(),
        Optional.of(table));
  }

  @Test
  void severalHostsHaveTimesOfTheirOwn() throws IOException {
    TunedTable table =
        table(
            "device host",
            "4 AllReduce Ring Simple 8:0.001",
            "2x2/Socket AllReduce Tree Simple 8:7",
            "2x2/Plugin AllReduce OneShot Simple 8:0.001",
            "2x2/Socket AllToAll Rails Simple 8:5");
    for (List<List<Integer>> hosts :
        List.of(List.of(List.of(0, 1), List.of(2, 3)), List.of(List.of(0, 2), List.of(1, 3)))) {
      CommunicatorProfile ranks = onHosts(table, hosts);
      assertEquals("2x2/Socket", ranks.inTables());
      assertTrue(ranks.usesTable(table));
      CostModel costs = ranks.costs();
      assertEquals("Tree Simple", choice(costs, 8));
      assertEquals(7, time(costs, Operation.ALL_REDUCE, Algorithm.TREE, 8), 1e-9);
      assertEquals(5, time(costs, Operation.ALL_TO_ALL, Algorithm.RAILS, 8), 1e-9);
      CostModel models = onHosts(table("device host", "9 AllReduce Ring LL 8:1"), hosts).costs();
      assertEquals(
          2 * time(models, Operation.ALL_TO_ALL, Algorithm.PAIRWISE, 8),
          time(costs, Operation.ALL_TO_ALL, Algorithm.PAIRWISE, 8),
          1e-9,
          "an estimate must not win over a measurement");
    }
    CommunicatorProfile uneven = onHosts(table, List.of(List.of(0, 1, 2), List.of(3)));
    assertEquals("", uneven.inTables());
    assertFalse(uneven.usesTable(table));
    assertTrue(!uneven.costs().source().contains("times"), uneven.costs().source());
  }

  @Test
  void directWaysHaveTheTablesTimes() throws IOException {
    TunedTable table =
        table(
            "device NVIDIA Unheard-of",
            "2 AllGather DirectOneShot Simple 2000:4 4000:6",
            "2 AllToAll Pairwise Simple 2000:3",
            "3 AllReduce DirectOneShot Simple 2000:7");
    CostModel costs = unheardOf(table, /* nvlink= */ false);
    assertTrue(costs.comparesWindows());
    assertEquals(5, time(costs, Operation.ALL_GATHER, Algorithm.DIRECT_ONE_SHOT, 3000), 1e-9);
    assertEquals(3, time(costs, Operation.ALL_TO_ALL, Algorithm.PAIRWISE, 2000), 1e-9);
    double guessed = time(costs, Operation.ALL_REDUCE, Algorithm.DIRECT_ONE_SHOT, 1000);
    assertTrue(guessed >= CostModel.ONLY_WHERE_ASKED, "a guess is not compared");
    assertFalse(costs.algorithms(Operation.ALL_GATHER).contains(Algorithm.DIRECT_TWO_SHOT));
    CostModel nvlink = unheardOf(table, /* nvlink= */ true);
    assertEquals(5, time(nvlink, Operation.ALL_GATHER, Algorithm.DIRECT_ONE_SHOT, 3000), 1e-9);
    double modelled = time(nvlink, Operation.ALL_REDUCE, Algorithm.DIRECT_ONE_SHOT, 1000);
    assertTrue(modelled < CostModel.ONLY_WHERE_ASKED, "a model's time is compared");
  }

  private static CostModel unheardOf(TunedTable table, boolean nvlink) {
    return new CommunicatorProfile(
            2,
            Device.Kind.CUDA,
            "NVIDIA Unheard-of",
            true,
            nvlink,
            RankPlacement.together(2),
            Optional.empty(),
            Optional.of(table))
        .costs();
  }

  private static double time(
      CostModel costs, Operation operation, Algorithm algorithm, long bytes) {
    return costs.microseconds(operation, algorithm, Protocol.SIMPLE, bytes);
  }

  @Test
  void tablesThatDifferHaveAnotherDigest() throws IOException {
    int one = table("device host", "2 AllReduce Tree LL 128:0.01").digest();
    assertEquals(one, table("# again", "device host", "2 AllReduce Tree LL 128:0.01").digest());
    assertTrue(one != table("device host", "2 AllReduce Tree LL 128:0.02").digest());
    assertTrue(one != table("device other", "2 AllReduce Tree LL 128:0.01").digest());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      value = {
        "2 AllReduce Ring LL 8:1; line 1: no line 'device NAME'",
        "device host; line 1: the file ends without a figure",
        "device host|2 AllReduce Ring LL; line 2: a line is",
        "device host|two AllReduce Ring LL 8:1; line 2: a line is",
        "device host|# x|2 AllReduce Wheel LL 8:1; line 3: there is no AllReduce Wheel LL",
        "device host|2 AllToAll Ring LL 8:1; line 2: there is no AllToAll Ring LL",
        "device host|2 AllReduce DirectLL Simple 8:1; line 2: there is no AllReduce DirectLL"
            + " Simple",
        "device host|2x2 AllReduce Ring LL 8:1; line 2: a line is",
        "device host|2x0/Socket AllReduce Ring LL 8:1; line 2: a line is",
        "device host|2x2/Socket AllGather Rails Simple 8:1; line 2: there is no AllGather Rails",
        "device host|2 AllReduce Ring LL 8:1 8:2; line 2: sizes must ascend from 1",
        "device host|2 AllReduce Ring LL 8:0; line 2: sizes must ascend from 1",
        "device host|2 AllReduce Ring LL 8:-1; line 2: a line is",
      })
  void whatIsWrongIsNamedWithItsLine(String lines, String problem) {
    var error = assertThrows(InvalidArgumentException.class, () -> table(lines.split("\\|")));
    assertTrue(error.problem().contains(problem), error.problem());
    assertTrue(error.problem().startsWith("NCCL4J_COSTS_FILE="), error.problem());
  }

  @Test
  void aFileThatIsNotThereIsAnError() {
    var error =
        assertThrows(
            InvalidArgumentException.class,
            () -> TunedTable.read(folder.resolve("none").toString()));
    assertTrue(error.problem().contains("cannot be read"), error.problem());
    assertEquals(Optional.empty(), TunedTable.read(""));
  }
}
