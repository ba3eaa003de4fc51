package org.nccl4j.topo.search;

import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.system.Node;

/**
 * One try: with pattern, speeds and distances given, packs as many channels into the machine as
 * fit, by depth-first search. Every step takes bandwidth from the links it crosses and gives it
 * back on return. Owned by the thread that searches.
 */
final class ChannelSearch {
  private static final int NEVER = -1;
  private static final int FIRST_ORDER_STEPS = 1 << 10;

  /** The source of a channel's next GPU. */
  enum Order {
    /** Order by score. */
    FREE,
    /** In the order of the machine. */
    MACHINE,
    /** Order of the channel before. */
    SAME_AS_LAST
  }

  /**
   * A place in a channel.
   *
   * @param gpu the GPU that was reached
   * @param step how many GPUs came before it
   * @param netStep at which step the channel goes back to the network, or {@link #NEVER}
   * @param firstStep at which step a ring closes, or {@link #NEVER}
   * @param order where the next GPU comes from
   */
  private record Place(int gpu, int step, int netStep, int firstStep, Order order) {
    Place at(int nextGpu, int nextStep) {
      return new Place(nextGpu, nextStep, netStep, firstStep, order);
    }
  }

  private final SearchSpace space;
  private final SearchState state;
  private final SearchState best;
  private final Budget mainBudget;
  private final GpuOrder gpuOrder;
  private final HeadSearch heads;
  private final long[] used;
  private Budget budget;

  ChannelSearch(SearchSpace space, SearchState state, SearchState best, Budget budget) {
    this.space = space;
    this.state = state;
    this.best = best;
    this.mainBudget = budget;
    this.budget = budget;
    this.gpuOrder = new GpuOrder(space);
    this.heads = new HeadSearch(this);
    this.used = new long[state.gpus];
  }

  SearchSpace space() {
    return space;
  }

  SearchState state() {
    return state;
  }

  /** Searches for one more channel, and from there for more. */
  void run() {
    if (space.inter) {
      startAtNets();
    } else if (state.pattern == Pattern.NVLS) {
      enter(null, start(state.nChannels, Order.FREE));
    } else {
      startAtGpus();
    }
  }

  private Place start(int gpu, Order order) {
    int last = state.gpus - 1;
    boolean ring = state.pattern == Pattern.RING;
    int netStep = ring ? last : state.pattern == Pattern.SPLIT_TREE ? 1 : 0;
    return new Place(
        gpu, 0, space.inter ? netStep : NEVER, !space.inter && ring ? last : NEVER, order);
  }

  private void startAtGpus() {
    if (state.nChannels == 0) {
      enter(null, start(0, Order.MACHINE));
    } else {
      enter(null, start(state.gpu(state.nChannels - 1, 0), Order.SAME_AS_LAST));
    }
    if (!state.sameChannels || state.nChannels == 0) {
      for (int g = 0; g < state.gpus; g++) {
        enter(null, start(g, Order.FREE));
      }
    }
  }

  private void startAtNets() {
    int speed = (int) state.bwInter;
    int[] nets = space.nets.forAll(state.typeInter);
    boolean found = false;
    for (int i = 0; i < nets.length && !found; i++) {
      int n = nets[(state.nChannels + i) % nets.length];
      if (!mayStart(n, speed)) {
        continue;
      }
      Node net = space.machine.nets().get(n);
      state.setNetIn(state.nChannels, n);
      state.latencyInter = net.net().latency();
      changeCard(net, -speed);
      if (state.pattern.isHeads()) {
        found = startHead(net, nets.length);
      } else {
        startChannel(net);
      }
      changeCard(net, speed);
    }
  }

  private boolean mayStart(int n, int speed) {
    Node net = space.machine.nets().get(n);
    if (state.kind.needsCollNet() && !net.net().coll()) {
      return false;
    }
    if (space.capacity.ofNet(n) < speed) {
      return false;
    }
    boolean secondOfPair =
        state.pattern == Pattern.RING && state.crossNic == 2 && (state.nChannels & 1) != 0;
    return !secondOfPair || n == state.netOut(state.nChannels - 1);
  }

  /** The networks of one port share its bandwidth. */
  private void changeCard(Node net, int by) {
    for (Node other : space.machine.nets()) {
      if (other.net().asic() == net.net().asic() && other.net().port() == net.net().port()) {
        space.capacity.changeNet(other.index(), by);
      }
    }
  }

  private boolean startHead(Node net, int nets) {
    Node gpu = space.localGpu[net.index()];
    if (state.nChannels >= nets || gpu == null) {
      return false;
    }
    for (int channel = 0; channel < state.nChannels; channel++) {
      if (state.gpu(channel, 0) == gpu.index()) {
        return false;
      }
    }
    enter(net, start(gpu.index(), Order.FREE));
    return true;
  }

  private void startChannel(Node net) {
    if (state.nChannels > 0 && state.sameChannels) {
      enter(net, start(state.gpu(state.nChannels - 1, 0), Order.SAME_AS_LAST));
      return;
    }
    if (state.nChannels == 0 && space.machine.nvSwitches().isEmpty()) {
      // The machine's order sets a mark to beat, outside the budget but not for long.
      budget = new Budget(FIRST_ORDER_STEPS);
      enter(net, start(0, Order.MACHINE));
      if (budget.isPerfect()) {
        mainBudget.perfect();
      }
      budget = mainBudget;
    }
    Node local = space.localGpu[net.index()];
    if (local != null) {
      enter(net, start(local.index(), Order.FREE));
    }
    for (Node gpu : space.routes.locality().nearest(net, NodeType.GPU).nodes()) {
      if (gpu != local) {
        enter(net, start(gpu.index(), Order.FREE));
      }
    }
  }

  /** Goes to a GPU, searches on from there, and comes back. */
  private void enter(Node from, Place place) {
    Node gpu = space.gpus.get(place.gpu);
    if (from != null && !take(from, gpu, 1)) {
      return;
    }
    long flag = 1L << state.nChannels;
    used[place.gpu] ^= flag;
    search(place);
    used[place.gpu] ^= flag;
    if (from != null) {
      giveBack(from, gpu, 1);
    }
  }

  private void search(Place place) {
    if (!budget.step()) {
      return;
    }
    if (place.step == state.gpus) {
      complete();
      return;
    }
    state.setGpu(state.nChannels, place.step, place.gpu);
    if (place.step == place.netStep) {
      backToNet(place);
    } else if (state.pattern == Pattern.NVLS) {
      heads.nvls(place.gpu);
    } else if (state.pattern == Pattern.COLLNET_DIRECT) {
      heads.collnet(place.gpu);
    } else if (place.step < state.gpus - 1) {
      Node gpu = space.gpus.get(place.gpu);
      for (int next : nextGpus(place)) {
        enter(gpu, place.at(next, place.step + 1));
      }
    } else if (place.step == place.firstStep) {
      closeRing(place);
    } else {
      finish(place.order);
    }
  }

  /** Counts a channel whose GPUs are all placed. */
  void finish(Order order) {
    search(new Place(0, state.gpus, NEVER, NEVER, order));
  }

  private void complete() {
    state.nChannels++;
    if (state.beats(best)) {
      best.copyFrom(state);
      if (state.nChannels == state.maxChannels) {
        budget.perfect();
      }
    }
    if (state.nChannels < state.maxChannels) {
      run();
    }
    state.nChannels--;
  }

  private void backToNet(Place place) {
    Node gpu = space.gpus.get(place.gpu);
    // A balanced tree puts half of the network traffic on each of the first two GPUs.
    boolean balanced = state.pattern == Pattern.BALANCED_TREE;
    int nextNetStep = balanced && place.step == 0 ? 1 : NEVER;
    for (int n : space.nets.forGpu(state.typeInter, place.gpu)) {
      if (!space.nets.mayReturn(state, n, place.step)) {
        continue;
      }
      Node net = space.machine.nets().get(n);
      if (takeToNet(gpu, net, balanced)) {
        state.setNetOut(state.nChannels, n);
        search(new Place(place.gpu, place.step, nextNetStep, place.firstStep, place.order));
        giveBackToNet(gpu, net, balanced);
      }
    }
  }

  private boolean takeToNet(Node gpu, Node net, boolean half) {
    float full = state.bwInter;
    state.bwInter = half ? full / 2 : full;
    boolean taken = take(gpu, net, 1);
    state.bwInter = full;
    return taken;
  }

  private void giveBackToNet(Node gpu, Node net, boolean half) {
    float full = state.bwInter;
    state.bwInter = half ? full / 2 : full;
    giveBack(gpu, net, 1);
    state.bwInter = full;
  }

  private int[] nextGpus(Place place) {
    return switch (place.order) {
      case MACHINE -> new int[] {place.step + 1};
      case SAME_AS_LAST -> new int[] {state.gpu(state.nChannels - 1, place.step + 1)};
      case FREE -> {
        GpuOrder.Towards towards =
            place.netStep == NEVER
                ? GpuOrder.Towards.GPUS
                : place.netStep == place.step + 1
                    ? GpuOrder.Towards.NET
                    : GpuOrder.Towards.NET_LATER;
        yield gpuOrder.next(state, used, place.gpu, towards);
      }
    };
  }

  private void closeRing(Place place) {
    Node gpu = space.gpus.get(place.gpu);
    Node first = space.gpus.get(state.gpu(state.nChannels, 0));
    if (take(gpu, first, 1)) {
      search(new Place(first.index(), place.step + 1, place.netStep, NEVER, place.order));
      giveBack(gpu, first, 1);
    }
  }

  /**
   * Takes a channel's bandwidth from the links of a path.
   *
   * @param share of the bandwidth; only a whole one looks at the path's length
   * @return false, having taken nothing, if the path is too long or too narrow
   */
  boolean take(Node from, Node to, float share) {
    return (share != 1 || isNear(from, to)) && change(from, to, share);
  }

  /** Gives back what {@link #take} has taken. */
  void giveBack(Node from, Node to, float share) {
    change(from, to, -share);
  }

  private boolean isNear(Node from, Node to) {
    PathType limit = isWithinMachine(from, to) ? state.typeIntra : state.typeInter;
    return space.path(from, to).type().within(limit)
        && (!state.pattern.isTree() || space.path(to, from).type().within(limit));
  }

  private boolean change(Node from, Node to, float share) {
    Path path = space.path(from, to);
    float bandwidth = (isWithinMachine(from, to) ? state.bwIntra : state.bwInter) * share;
    if (path.type() == PathType.DIS || !space.capacity.take(path, from, bandwidth)) {
      return false;
    }
    state.hops = (int) (state.hops + share * path.hops());
    return true;
  }

  private static boolean isWithinMachine(Node from, Node to) {
    return isLocal(from) && isLocal(to);
  }

  private static boolean isLocal(Node node) {
    return node.type() == NodeType.GPU || node.type() == NodeType.NVS;
  }
}
