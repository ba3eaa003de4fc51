package org.nccl4j.topo.connect;

import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Node;

/** Computes the number of channels of NVLS. */
final class NvlsChannels {
  private static final int HOPPER_CHANNELS = 16;
  private static final int BLACKWELL_CHANNELS = 24;
  private static final int BLACKWELL_CHANNELS_MULTI_NODE = 32;
  private static final int BLACKWELL = 100;

  /** A 400 Gb/s network, in GB/s. */
  private static final float FAST_NET = 48.0f;

  private NvlsChannels() {}

  static int count(CommShape shape, TopoSettings settings) {
    boolean multiNode = shape.nNodes() > 1;
    int channels = HOPPER_CHANNELS;
    if (shape.gpuOf(0).gpu().sm() >= BLACKWELL) {
      channels = multiNode ? BLACKWELL_CHANNELS_MULTI_NODE : BLACKWELL_CHANNELS;
    }
    if (shape.minSm() >= BLACKWELL && multiNode) {
      channels = blackwellNodes(shape, channels);
    }
    int asked = settings.get(TopoSettings.NCCL_NVLS_NCHANNELS);
    channels = asked == 0 ? channels : asked;
    return Math.max(settings.minCtas(), Math.min(settings.maxCtas(), channels));
  }

  private static int blackwellNodes(CommShape shape, int otherwise) {
    float net = slowestNet(shape);
    if (net < FAST_NET) {
      return otherwise;
    }
    if (shape.nNodes() == 2) {
      return BLACKWELL_CHANNELS_MULTI_NODE;
    }
    boolean fewFast = net < 2 * FAST_NET || shape.minLocalRanks() <= 8;
    return fewFast ? BLACKWELL_CHANNELS : BLACKWELL_CHANNELS_MULTI_NODE;
  }

  /** The slowest network that any rank uses, as the rank reaches it. */
  static float slowestNet(CommShape shape) {
    float slowest = Float.MAX_VALUE;
    for (MachineGraphs machine : shape.machines()) {
      Routes routes = machine.routes();
      for (Node gpu : routes.machine().gpus()) {
        if (routes.locality().nearest(gpu, NodeType.NET).type() == PathType.DIS) {
          return 0;
        }
        for (Node net : routes.locality().netsOf(gpu)) {
          slowest = Math.min(slowest, routes.paths().path(gpu, net).bandwidth());
        }
      }
    }
    return slowest;
  }
}
