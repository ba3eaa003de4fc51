package org.nccl4j.topo.search;

import org.nccl4j.topo.system.Node;

/**
 * Channels that are a head and its bandwidth to all others: NVLS, where every GPU exchanges with
 * the NVSwitch and the head twice as much, and CollNet, where every GPU exchanges with the head.
 */
final class HeadSearch {
  private final ChannelSearch search;

  HeadSearch(ChannelSearch search) {
    this.search = search;
  }

  void nvls(int head) {
    Node nvSwitch = search.space().machine.nvSwitches().get(0);
    int gpus = search.state().gpus;
    int down = 0;
    while (down < gpus && fromSwitch(nvSwitch, down, head, 1)) {
      down++;
    }
    if (down == gpus) {
      int up = 0;
      while (up < gpus && toSwitch(nvSwitch, up, head, 1)) {
        up++;
      }
      if (up == gpus) {
        search.finish(ChannelSearch.Order.FREE);
      }
      while (up > 0) {
        toSwitch(nvSwitch, --up, head, -1);
      }
    }
    while (down > 0) {
      fromSwitch(nvSwitch, --down, head, -1);
    }
  }

  private boolean fromSwitch(Node nvSwitch, int gpu, int head, int sign) {
    return search.follow(nvSwitch, gpu(gpu), share(gpu, head, sign));
  }

  private boolean toSwitch(Node nvSwitch, int gpu, int head, int sign) {
    return search.follow(gpu(gpu), nvSwitch, share(gpu, head, sign));
  }

  /** The head pays double: it sends and receives the sums as well. */
  private static float share(int gpu, int head, int sign) {
    return gpu == head ? 2 * sign : sign;
  }

  void collnet(int head) {
    SearchState state = search.state();
    int gpus = state.gpus;
    float share = (float) (1.0 / (gpus - 1));
    int out = 0;
    while (out < gpus && search.follow(gpu(head), gpu(out), share)) {
      out++;
    }
    if (out == gpus) {
      int in = 0;
      while (in < gpus && search.follow(gpu(in), gpu(head), share)) {
        in++;
      }
      if (in == gpus) {
        placeOthers(state, head);
        search.finish(ChannelSearch.Order.FREE);
      }
      while (in > 0) {
        search.follow(gpu(--in), gpu(head), -share);
      }
    }
    while (out > 0) {
      search.follow(gpu(head), gpu(--out), -share);
    }
  }

  private static void placeOthers(SearchState state, int head) {
    int step = 1;
    for (int gpu = 0; gpu < state.gpus; gpu++) {
      if (gpu != head) {
        state.gpu(state.nChannels, step++, gpu);
      }
    }
  }

  private Node gpu(int index) {
    return search.space().gpus.get(index);
  }
}
