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
    while (down < gpus && search.take(nvSwitch, gpu(down), share(down, head))) {
      down++;
    }
    if (down == gpus) {
      int up = 0;
      while (up < gpus && search.take(gpu(up), nvSwitch, share(up, head))) {
        up++;
      }
      if (up == gpus) {
        search.finish(ChannelSearch.Order.FREE);
      }
      while (up > 0) {
        up--;
        search.giveBack(gpu(up), nvSwitch, share(up, head));
      }
    }
    while (down > 0) {
      down--;
      search.giveBack(nvSwitch, gpu(down), share(down, head));
    }
  }

  /** The head pays double: it sends and receives the sums as well. */
  private static float share(int gpu, int head) {
    return gpu == head ? 2 : 1;
  }

  void collnet(int head) {
    SearchState state = search.state();
    int gpus = state.gpus;
    float share = (float) (1.0 / (gpus - 1));
    int out = 0;
    while (out < gpus && search.take(gpu(head), gpu(out), share)) {
      out++;
    }
    if (out == gpus) {
      int in = 0;
      while (in < gpus && search.take(gpu(in), gpu(head), share)) {
        in++;
      }
      if (in == gpus) {
        placeOthers(state, head);
        search.finish(ChannelSearch.Order.FREE);
      }
      while (in > 0) {
        search.giveBack(gpu(--in), gpu(head), share);
      }
    }
    while (out > 0) {
      search.giveBack(gpu(head), gpu(--out), share);
    }
  }

  private static void placeOthers(SearchState state, int head) {
    int step = 1;
    for (int gpu = 0; gpu < state.gpus; gpu++) {
      if (gpu != head) {
        state.setGpu(state.nChannels, step++, gpu);
      }
    }
  }

  private Node gpu(int index) {
    return search.space().gpus.get(index);
  }
}
