package org.nccl4j.topo.tuning;

import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.connect.AlignedGraph;
import org.nccl4j.topo.connect.CommGraph;
import org.nccl4j.topo.connect.CommShape;
import org.nccl4j.topo.system.NodeAttributes;
import org.nccl4j.topo.tuning.TunerConstants.Generation;

/** The bandwidth side of the cost model. Stateless except for the communicator that it reads. */
final class BandwidthModel {
  private static final int HOPPER = 90;

  private final CommGraph comm;
  private final Generation generation;
  private final int nRanks;
  private final int nNodes;
  private final float ranksPerNode;
  private final double llMax;

  BandwidthModel(CommGraph comm) {
    CommShape shape = comm.shape();
    this.comm = comm;
    this.generation = Generation.of(shape.minSm());
    this.nRanks = shape.nRanks();
    this.nNodes = shape.nNodes();
    this.ranksPerNode = (float) nRanks / nNodes;
    boolean amdOrMixed =
        shape.vendor() == NodeAttributes.Vendor.AMD
            || shape.vendor() == NodeAttributes.Vendor.MIXED;
    this.llMax = TunerConstants.llMax(generation, nNodes, amdOrMixed);
  }

  /** GB/s of the algorithm, 0 if it cannot do the collective. */
  float of(Operation collective, Algorithm algorithm, Protocol protocol) {
    AlignedGraph graph = NcclCostModel.graph(comm, algorithm);
    float perChannel = nNodes <= 2 || algorithm.isCollNet() ? graph.bwIntra() : graph.bwInter();
    if (algorithm.isNvls()) {
      perChannel = nvls(collective, algorithm, graph);
    }
    float bus = graph.nChannels() * perChannel;
    bus =
        switch (algorithm) {
          case RING -> ring(protocol, graph, bus);
          case TREE -> tree(collective, protocol, graph, bus);
          case PAT -> (float) (bus * .75);
          case COLLNET_DIRECT -> protocol == Protocol.SIMPLE ? direct(collective, graph, bus) : 0;
          case COLLNET_CHAIN -> protocol == Protocol.SIMPLE ? bus : 0;
          default -> bus;
        };
    boolean needsNetGather =
        (algorithm == Algorithm.NVLS || algorithm == Algorithm.COLLNET_DIRECT)
            && collective.isGatherOrScatter()
            && nNodes > 1;
    // No network plug-in is known here that gathers and scatters as well as it reduces.
    return needsNetGather ? 0 : toAlgorithm(collective, algorithm, bus);
  }

  private float nvls(Operation collective, Algorithm algorithm, AlignedGraph graph) {
    int channels = graph.nChannels();
    float intra =
        graph.bwIntra() * TunerConstants.nvlsEfficiency(generation) * (channels - 1) / channels;
    intra *= collective == Operation.ALL_REDUCE ? 2.0f : (ranksPerNode - 1) / ranksPerNode;
    boolean tree = algorithm == Algorithm.NVLS_TREE;
    float inter = graph.bwInter() * (nNodes <= 2 && tree ? 2 : 1);
    float most = tree ? (float) TunerConstants.nvlsTree(generation, nNodes) : Float.MAX_VALUE;
    return Math.min(Math.min(intra, inter), most);
  }

  private float ring(Protocol protocol, AlignedGraph graph, float bus) {
    return switch (protocol) {
      case LL -> inLl(bus);
      case LL128 ->
          (float)
              Math.min(
                  bus * 0.92, graph.nChannels() * TunerConstants.ringLl128(generation, nNodes));
      case SIMPLE -> bus;
    };
  }

  /** GB/s in LL of rings that carry so many: flags take half. */
  float inLl(float bus) {
    return (float) Math.min(llMax, bus * .5);
  }

  private float tree(Operation collective, Protocol protocol, AlignedGraph graph, float bus) {
    int channels = graph.nChannels();
    float tree = bus;
    if (collective == Operation.ALL_REDUCE) {
      tree = (float) Math.min(tree * .92, channels * TunerConstants.tree(generation, nNodes));
    }
    if (protocol == Protocol.LL) {
      tree = (float) Math.min(tree * 1.0 / 3.8, llMax);
    }
    if (protocol == Protocol.LL128) {
      double payload = nNodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0;
      tree =
          (float) Math.min(tree * payload, channels * TunerConstants.treeLl128(generation, nNodes));
    }
    return comm.treePattern() == Pattern.TREE ? (float) (tree * .85) : tree;
  }

  private float direct(Operation collective, AlignedGraph graph, float bus) {
    if (collective.isGatherOrScatter()) {
      return ranksPerNode * Math.min(graph.bwIntra(), graph.bwInter() * 0.9f);
    }
    // Full speed needs a network card per GPU.
    float share = (float) (ranksPerNode / (1.0 * graph.nChannels()));
    share -= (share - 1) / 2;
    float direct = bus / share;
    return comm.shape().minSm() >= HOPPER ? (float) (direct * .85) : direct;
  }

  /** From what the links carry to what the caller sees. */
  private float toAlgorithm(Operation collective, Algorithm algorithm, float bus) {
    if (algorithm != Algorithm.RING && collective.isGatherOrScatter()) {
      return bus;
    }
    float ratio =
        algorithm == Algorithm.RING || algorithm.isNvls()
            ? (float) ((1.0 * nRanks) / NcclCostModel.steps(collective, nRanks))
            : .5f;
    return bus * ratio;
  }
}
