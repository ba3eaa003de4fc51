package org.nccl4j.api.settings;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** The grammar of NCCL_ALGO and NCCL_PROTO. */
class AlgorithmFilterTest {
  private static final List<Algorithm> ABLE =
      List.of(Algorithm.TREE, Algorithm.RING, Algorithm.ONE_SHOT);

  private static List<Algorithm> of(String algo, Operation operation) {
    return AlgorithmFilter.parse(algo, "").algorithms(operation, ABLE);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "''                    | TREE,RING,ONE_SHOT | TREE,RING,ONE_SHOT",
        "ring                  | RING               | RING",
        "One-Shot , TREE       | TREE,ONE_SHOT      | TREE,ONE_SHOT",
        "^ring                 | TREE,ONE_SHOT      | TREE,ONE_SHOT",
        "^                     | TREE,RING,ONE_SHOT | TREE,RING,ONE_SHOT",
        "ring;allreduce:^ring  | TREE,ONE_SHOT      | RING",
        "All_Reduce:tree;ring  | TREE               | RING",
        "allgather:tree        | TREE,RING,ONE_SHOT | TREE",
        "ring;allreduce:       | TREE,RING,ONE_SHOT | RING",
        "NVLS                  | TREE,RING,ONE_SHOT | TREE,RING,ONE_SHOT",
        "allreduce:tree;allreduce:ring | TREE       | TREE,RING,ONE_SHOT",
        "ring;tree             | TREE               | TREE",
        "ring,collnetdirect;allreduce:tree,CollNetChain | TREE | RING",
        "^CollNetDirect        | TREE,RING,ONE_SHOT | TREE,RING,ONE_SHOT",
      })
  void listsAreForAllOperationsOrForSingleOnes(String algo, String allReduce, String allGather) {
    assertEquals(allReduce, text(of(algo, Operation.ALL_REDUCE)));
    assertEquals(allGather, text(of(algo, Operation.ALL_GATHER)));
  }

  private static String text(List<Algorithm> algorithms) {
    return String.join(",", algorithms.stream().map(Algorithm::name).toList());
  }

  @Test
  void aWayBetweenWindowsNeedsBothItsNameAndItsProtocol() {
    AlgorithmFilter filter = AlgorithmFilter.parse("^directoneshot", "Simple");
    assertFalse(filter.allows(Operation.ALL_REDUCE, Algorithm.DIRECT_ONE_SHOT));
    assertFalse(filter.allows(Operation.ALL_REDUCE, Algorithm.DIRECT_LL), "its protocol is LL");
    assertTrue(filter.allows(Operation.ALL_REDUCE, Algorithm.DIRECT_TWO_SHOT));
    assertFalse(filter.demands(Operation.ALL_REDUCE, Algorithm.DIRECT_TWO_SHOT));
  }

  @Test
  void sendsAndReceivesHaveOneName() {
    AlgorithmFilter filter = AlgorithmFilter.parse("sendrecv:CopyEngine", "");
    assertTrue(filter.demands(Operation.SEND, Algorithm.COPY_ENGINE));
    assertTrue(filter.demands(Operation.RECV, Algorithm.COPY_ENGINE));
    assertFalse(filter.demands(Operation.ALL_TO_ALL, Algorithm.COPY_ENGINE));
  }

  @Test
  void nvlsIsAskedForByNameForAnyOperation() {
    assertTrue(AlgorithmFilter.parse("ring;allgather:NVLS", "").demandsAnywhere(Algorithm.NVLS));
    assertFalse(AlgorithmFilter.parse("^nvls", "").demandsAnywhere(Algorithm.NVLS));
    assertFalse(AlgorithmFilter.parse("NVLSTree", "").demandsAnywhere(Algorithm.NVLS));
    assertTrue(AlgorithmFilter.parse("ring;allreduce:nvls_tree", "").demandsNvls());
    assertFalse(AlgorithmFilter.parse("^nvls,nvlstree", "").demandsNvls());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "Ring,Tree                   | tree , ring",
        "ONESHOT,twoshot             | OneShot,TwoShot",
        "ring;all_reduce:tree        | AllReduce:Tree;Ring",
        "^LL                         | ^ll",
      })
  void valuesThatMeanTheSameHaveOneText(String one, String other) {
    boolean protocols = one.contains("LL");
    AlgorithmFilter first = AlgorithmFilter.parse(protocols ? "" : one, protocols ? one : "");
    AlgorithmFilter second = AlgorithmFilter.parse(protocols ? "" : other, protocols ? other : "");
    assertEquals(first.algorithmText(), second.algorithmText());
    assertEquals(first.protocolText(), second.protocolText());
  }

  @Test
  void messagesHaveTheValuesAsTheyWereGiven() {
    assertEquals("NCCL_ALGO=Ring,PAT", AlgorithmFilter.parse("Ring,PAT", "").toString());
    assertEquals(
        "NCCL_ALGO=Ring and NCCL_PROTO=^LL", AlgorithmFilter.parse("Ring", "^LL").toString());
  }

  @Test
  void namesThatDoNotExistAreRefusedWithThoseThatDo() {
    InvalidArgumentException e =
        assertThrows(InvalidArgumentException.class, () -> AlgorithmFilter.parse("ring,Star", ""));
    assertTrue(e.getMessage().contains("NCCL_ALGO=ring,Star names 'Star'"), e.getMessage());
    assertTrue(e.getMessage().contains("DirectOneShot"), e.getMessage());
    assertThrows(InvalidArgumentException.class, () -> AlgorithmFilter.parse("", "allreduce:LL9"));
    e =
        assertThrows(
            InvalidArgumentException.class, () -> AlgorithmFilter.parse("all_reduc:ring", ""));
    assertTrue(e.getMessage().contains("names 'all_reduc'"), e.getMessage());
  }
}
