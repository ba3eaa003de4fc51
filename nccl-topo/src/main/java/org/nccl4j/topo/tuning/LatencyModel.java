package org.nccl4j.topo.tuning;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.connect.CommShape;
import org.nccl4j.topo.system.NodeAttributes;
import org.nccl4j.topo.tuning.TunerConstants.Hardware;

/** The latency side of the cost model. Stateless except for the communicator that it reads. */
final class LatencyModel {
  private static final double PAT_NET_SHARE = 3.5;
  private static final double PAT_PER_RANK = 2.8;
  private static final double DIRECT_PER_PEER = 0.4;

  private final CommGraph comm;
  private final CommShape shape;
  private final int nRanks;
  private final int nNodes;
  private final int log2Nodes;
  private final float netOverhead;

  LatencyModel(CommGraph comm, TopoSettings settings) {
    this.comm = comm;
    this.shape = comm.shape();
    this.nRanks = shape.nRanks();
    this.nNodes = shape.nNodes();
    this.log2Nodes = NcclCostModel.log2(nNodes);
    this.netOverhead = netOverhead(settings);
  }

  private float netOverhead(TopoSettings settings) {
    int nanos = settings.get(TopoSettings.NCCL_NET_OVERHEAD);
    if (nanos != -2) {
      return (float) (nanos * .001);
    }
    return shape.arch() == NodeAttributes.Arch.X86 && shape.vendor() == NodeAttributes.Vendor.AMD
        ? 2.0f
        : 1.0f;
  }

  /** Microseconds before the first byte is through. */
  float of(Operation collective, Algorithm algorithm, Protocol protocol) {
    AlignedGraph graph = NcclCostModel.graph(comm, algorithm);
    Hardware within = graph.typeIntra() == PathType.NVL ? Hardware.NVLINK : Hardware.PCI;
    float intra = (float) step(within, algorithm, protocol);
    float inter = between(algorithm, protocol, graph);
    float base = (float) TunerConstants.base(algorithm, protocol);
    int local = nRanks / nNodes - 1;
    return switch (algorithm) {
      case RING -> base + ring(collective, protocol, graph, within, intra, inter);
      case TREE ->
          collective == Operation.ALL_REDUCE
              ? base + 2 * (local * intra + log2Nodes * inter)
              : base;
      case COLLNET_DIRECT ->
          (float) (base + 2 * (Math.min(1, local) * intra + local * DIRECT_PER_PEER) + inter);
      case COLLNET_CHAIN -> base + 2 * local * intra + inter;
      case NVLS -> nNodes > 1 ? intra + inter : intra;
      case NVLS_TREE -> base + intra + 2 * log2Nodes * inter;
      case PAT ->
          collective.isGatherOrScatter()
              ? (float) (base + log2Nodes * (inter / PAT_NET_SHARE) + nRanks * PAT_PER_RANK)
              : base;
      default -> throw new IllegalArgumentException(algorithm.label());
    };
  }

  private float between(Algorithm algorithm, Protocol protocol, AlignedGraph graph) {
    // With one rank a node nothing hides the network; trees were measured like that.
    Algorithm measured = nRanks == nNodes ? Algorithm.TREE : algorithm;
    float inter = (float) TunerConstants.step(Hardware.NET, measured, protocol);
    inter += graph.latencyInter();
    // Simple has to flush as well.
    return protocol == Protocol.SIMPLE ? inter + graph.latencyInter() : inter;
  }

  private float ring(
      Operation collective,
      Protocol protocol,
      AlignedGraph graph,
      Hardware within,
      float intra,
      float inter) {
    int steps = NcclCostModel.steps(collective, nRanks);
    if (collective == Operation.REDUCE || collective == Operation.BROADCAST) {
      Hardware hardware = nNodes == 1 ? within : Hardware.NET;
      if (graph.sameChannels()) {
        return (float) step(hardware, Algorithm.RING, protocol);
      }
      Algorithm measured = protocol == Protocol.SIMPLE ? Algorithm.TREE : Algorithm.RING;
      return steps * (float) step(hardware, measured, protocol);
    }
    int interSteps = collective == Operation.ALL_REDUCE ? 2 * (nNodes - 1) : nNodes - 1;
    return (steps - interSteps) * within(protocol, intra) + interSteps * inter;
  }

  /** A ring's step within a node, which over several nodes takes a proxy's time at least. */
  private float within(Protocol protocol, float intra) {
    float overhead = 0;
    if (nNodes > 1) {
      overhead = protocol == Protocol.SIMPLE ? netOverhead * 3 : netOverhead;
    }
    return Math.max(intra, overhead);
  }

  /**
   * Microseconds of steps that follow each other as in a ring in Simple, with its launch.
   *
   * @param within steps between GPUs of a node
   * @param between steps from node to node
   */
  float chain(int within, int between) {
    AlignedGraph graph = NcclCostModel.graph(comm, Algorithm.RING);
    Hardware hardware = graph.typeIntra() == PathType.NVL ? Hardware.NVLINK : Hardware.PCI;
    float intra = (float) step(hardware, Algorithm.RING, Protocol.SIMPLE);
    return (float) TunerConstants.base(Algorithm.RING, Protocol.SIMPLE)
        + within * within(Protocol.SIMPLE, intra)
        + between * between(Algorithm.RING, Protocol.SIMPLE, graph);
  }

  private double step(Hardware hardware, Algorithm algorithm, Protocol protocol) {
    // On POWER, trees over PCIe are as fast as rings.
    boolean power =
        shape.arch() == NodeAttributes.Arch.POWER
            && hardware == Hardware.PCI
            && algorithm == Algorithm.TREE
            && protocol == Protocol.SIMPLE;
    return TunerConstants.step(hardware, power ? Algorithm.RING : algorithm, protocol);
  }
}
