package org.nccl4j.topo.tuning;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.NameLists;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSetting;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.search.GraphKind;

/**
 * The algorithms and protocols that NCCL would use, from NCCL_ALGO and NCCL_PROTO and the abilities
 * of the machine. Names of algorithms that NCCL does not have are left out of NCCL_ALGO.
 */
final class EnabledAlgorithms {
  private static final int HOPPER = 90;
  private static final int VOLTA = 70;

  private final CommGraph comm;
  private final boolean nvSwitch;
  private final boolean ll128OverC2c;
  private final NameLists algorithms;
  private final NameLists protocols;

  EnabledAlgorithms(CommGraph comm, TopoSettings settings) {
    this.comm = comm;
    this.nvSwitch = !comm.shape().nodes().get(0).graphs().routes().machine().nvSwitches().isEmpty();
    this.ll128OverC2c = settings.get(TopoSettings.NCCL_LL128_C2C);
    this.algorithms =
        settings
            .get(TopoSettings.NCCL_ALGO)
            .only(Algorithm.ofNccl().stream().map(Algorithm::label).toList());
    this.protocols = settings.get(TopoSettings.NCCL_PROTO);
    check(TopoSettings.NCCL_ALGO, settings, Algorithm.accepted());
    check(
        TopoSettings.NCCL_PROTO,
        settings,
        Stream.of(Protocol.values()).map(Protocol::label).toList());
  }

  boolean allows(Operation collective, Algorithm algorithm, Protocol protocol) {
    boolean byMachine = protocol != Protocol.LL128 || ll128Works(algorithm);
    boolean byProtocol = protocols.of(collective.label()).rule(protocol.label()).orElse(byMachine);
    boolean byAlgorithm = algorithms.of(collective.label()).allows(algorithm.label());
    return byProtocol && byAlgorithm && works(algorithm);
  }

  private boolean works(Algorithm algorithm) {
    boolean oneNode = comm.shape().nNodes() == 1;
    return switch (algorithm) {
      case NVLS_TREE -> !oneNode;
      case NVLS -> oneNode || comm.collNet();
      case COLLNET_CHAIN -> comm.collNet();
      case COLLNET_DIRECT -> comm.collNet() && nvSwitch;
      default -> true;
    };
  }

  /** LL128 needs stores of 128 bytes to arrive whole, which not every link guarantees. */
  private boolean ll128Works(Algorithm algorithm) {
    AlignedGraph graph = NcclCostModel.graph(comm, algorithm);
    int min = comm.shape().minSm();
    PathType limit = ll128OverC2c && min >= HOPPER ? PathType.PXN : PathType.PXB;
    return graph.typeInter().within(limit)
        && graph.typeIntra().within(PathType.NVB)
        && (min == comm.shape().maxSm() || min >= HOPPER)
        && min >= VOLTA;
  }

  private static void check(
      TopoSetting<NameLists> setting, TopoSettings settings, List<String> knownNames) {
    NameLists value = settings.get(setting);
    List<String> unknown = new ArrayList<>(value.unknownNames(knownNames));
    unknown.addAll(value.unknownOperations(Operation.scopes()));
    if (!unknown.isEmpty()) {
      throw new TopologyException(
          "a setting cannot be read",
          setting.name() + "=" + value,
          "there is no algorithm, protocol or operation '" + unknown.get(0) + "'",
          "write for example "
              + setting.name()
              + "=\"ring,tree;allreduce:^tree\" with known names");
    }
  }

  static GraphKind graphOf(Algorithm algorithm) {
    return switch (algorithm) {
      case TREE, PAT -> GraphKind.TREE;
      case RING -> GraphKind.RING;
      case COLLNET_DIRECT -> GraphKind.COLLNET_DIRECT;
      case COLLNET_CHAIN -> GraphKind.COLLNET_CHAIN;
      case NVLS, NVLS_TREE -> GraphKind.NVLS;
      default -> throw new IllegalArgumentException(algorithm.label());
    };
  }
}
