package org.nccl4j.api.exchange;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.util.List;
import java.util.function.IntFunction;
import org.nccl4j.api.group.GroupScope;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

/**
 * Delivers tokens by sends and receives, between ranks that do not all reach each other's windows.
 * The host gets the expert numbers of all ranks by an all-gather, and finds the rows. Kernels pack
 * a token once for each rank of its host that gets it, and once for each other host. Sends and
 * receives carry it, there a relay forwards it, and kernels put it into its rows. Each output
 * travels straight back, and a kernel adds them; where hosts add, a relay adds those of its host
 * first. So the host touches no tokens of a GPU, and waits only in a dispatch.
 */
public final class ExpertMessages implements ExpertDelivery {
  private final Transfers transfers;
  private final LaunchTurn launches;
  private final ExpertKernels.Steps steps;
  private final ExpertSizes sizes;
  private final ExpertBuffers buffers;
  private final int rank;
  private final String whereCombine;
  private final ExpertRows rows;
  private final ExpertRoutes routes;
  private final ExpertReturns returns;
  private final ExpertTables tables;

  /** Tokens in the form they travel in. */
  private final DeviceMemory staging;

  /** Lists and weights for the kernels. */
  private final DeviceMemory lists;

  private final ExpertOutputs outputs;

  /** The lists on the host. */
  private final ByteBuffer words;

  private Lists call;
  private int tokens;

  private ExpertMessages(
      OperationDispatcher dispatcher,
      ExpertSizes sizes,
      ExchangeChecks checks,
      ExpertBuffers buffers,
      LaunchTurn launches,
      ExpertKernels.Steps steps,
      Ways ways,
      Memory memory) {
    transfers = new Transfers(dispatcher);
    this.launches = launches;
    this.steps = steps;
    this.sizes = sizes;
    this.buffers = buffers;
    CommunicatorState state = checks.state();
    rank = state.rank();
    whereCombine = checks.where(Operation.COMBINE.method());
    routes = ways.routes;
    returns = ways.returns;
    rows = new ExpertRows(sizes, rank, ways.hostsAdd);
    staging = memory.staging;
    lists = memory.lists;
    words = memory.words;
    String where = checks.where(Operation.DISPATCH.method());
    tables =
        new ExpertTables(
            dispatcher, where, sizes, state.nextExchange(), ways.hostsAdd, memory.tables);
    outputs = new ExpertOutputs(sizes, rank, where, state.device(), tables, memory.outputs);
  }

  /**
   * Prepares what is needed besides the user's buffers, together with all other ranks.
   *
   * @param sumsByHost true if each host adds its outputs for a token of another
   * @throws NcclException on all ranks, if one of them lacks memory or kernels
   */
  public static ExpertMessages create(
      OperationDispatcher dispatcher,
      ExpertSizes sizes,
      boolean sumsByHost,
      ExchangeAgreement agreement,
      ExchangeChecks checks,
      ExpertBuffers buffers) {
    CommunicatorState state = checks.state();
    LaunchTurn launches = new LaunchTurn(state.launcher(), sizes.type());
    Ways ways = Ways.of(sizes, state.rank(), state.hosts().ranks(), sumsByHost);
    Memory memory = null;
    ExpertKernels.Steps steps = null;
    NcclException lack = null;
    try {
      int mostBlocks = dispatcher.planner().mostLocalBlocks();
      steps = launches.prepare(() -> state.kernels().expertSteps(sizes, mostBlocks));
      memory = Memory.allocate(state.device(), sizes, ways);
    } catch (NcclException e) {
      lack = e;
    }
    try {
      agreement.reach(lack);
    } catch (RuntimeException e) {
      if (memory != null) {
        memory.close();
      }
      if (steps != null) {
        launches.discard(steps::discard);
      }
      throw e;
    }
    return new ExpertMessages(dispatcher, sizes, checks, buffers, launches, steps, ways, memory);
  }

  /**
   * The most bytes of the lists of a dispatch; an int for the sizes that are allowed.
   *
   * @param hosts the ranks of each host, ascending
   */
  public static long listBytes(
      ExpertSizes sizes, int rank, List<List<Integer>> hosts, boolean sumsByHost) {
    return Ways.of(sizes, rank, hosts, sumsByHost).listBytes();
  }

  /** The ways of tokens and of outputs. */
  private record Ways(
      ExpertSizes sizes, ExpertRoutes routes, ExpertReturns returns, boolean hostsAdd) {
    static Ways of(ExpertSizes sizes, int rank, List<List<Integer>> hosts, boolean sumsByHost) {
      boolean hostsAdd = sumsByHost && hosts.size() > 1;
      ExpertRelays relays = new ExpertRelays(hosts);
      return new Ways(
          sizes,
          new ExpertRoutes(sizes, rank, relays, hostsAdd),
          new ExpertReturns(sizes, rank, relays, hostsAdd),
          hostsAdd);
    }

    long listBytes() {
      long added = returns.mostSums() * sizes.topK();
      long pairs =
          routes.mostPacked() + routes.mostForwarded() + sizes.rows() + sizes.entries() + added;
      return 2 * pairs * Integer.BYTES;
    }
  }

  /** The memory of an exchange besides the user's buffers; words are the lists on the host. */
  private record Memory(
      DeviceMemory staging,
      DeviceMemory outputs,
      DeviceMemory lists,
      ExpertTables.Memory tables,
      ByteBuffer words) {
    static Memory allocate(Device device, ExpertSizes sizes, Ways ways) {
      ByteBuffer words = ExpertTables.buffer(ways.listBytes());
      ByteBuffer own = ExpertTables.buffer(ExpertTables.ownBytes(sizes, ways.hostsAdd));
      ByteBuffer all = ExpertTables.buffer(ExpertTables.allBytes(sizes, ways.hostsAdd));
      DeviceMemory[] made =
          ExchangeMemory.allocateAll(
              device,
              ways.routes.mostStaged() * sizes.travelBytes(),
              ExpertOutputs.firstBytes(sizes),
              words.capacity(),
              own.capacity(),
              all.capacity());
      ExpertTables.Memory tables = new ExpertTables.Memory(made[3], made[4], own, all);
      return new Memory(made[0], made[1], made[2], tables, words);
    }

    void close() {
      staging.close();
      outputs.close();
      lists.close();
      tables.close();
    }
  }

  /** The lists of a dispatch and its combine, as parts of one memory. */
  private record Lists(
      DeviceMemory packed,
      DeviceMemory packedTo,
      DeviceMemory forwarded,
      DeviceMemory forwardedTo,
      DeviceMemory from,
      DeviceMemory outputs,
      DeviceMemory places,
      DeviceMemory weights,
      DeviceMemory added,
      DeviceMemory addedWeights) {}

  @Override
  public boolean isCapturable() {
    return false;
  }

  @Override
  public void dispatch(
      DeviceMemory from,
      DeviceMemory experts,
      DeviceMemory factors,
      int count,
      boolean whole,
      DeviceStream stream) {
    IntBuffer all = tables.exchange(experts, factors, count, stream);
    outputs.reserve(returns.rows(all), stream);
    tokens = count;
    rows.find(all);
    routes.find(all);
    returns.find(all);
    list(all);
    try (LaunchTurn turn = launches.enter()) {
      turn.count((long) count * sizes.hidden());
      KernelPlan plan = steps.pack(call.packed, call.packedTo, routes.packed());
      turn.first(Operation.DISPATCH, plan, from, staging, stream);
    }
    exchange(staging, sizes.travelBytes(), stream, new Flow(routes::leaving, routes::arriving));
    if (routes.forwarded() > 0) {
      try (LaunchTurn turn = launches.enter()) {
        KernelPlan plan = steps.forward(call.forwarded, call.forwardedTo, routes.forwarded());
        turn.next(Operation.DISPATCH, plan, staging, staging, stream);
      }
    }
    exchange(staging, sizes.travelBytes(), stream, new Flow(routes::forwarded, routes::relayed));
    if (whole) {
      writeCounts();
      place(stream);
    }
  }

  @Override
  public void receiveDispatch(DeviceStream stream) {
    stream.synchronize();
    writeCounts();
    place(stream);
  }

  private void writeCounts() {
    buffers.write(rows, sizes.nRanks());
  }

  private void place(DeviceStream stream) {
    try (LaunchTurn turn = launches.enter()) {
      KernelPlan plan = steps.place(call.from, buffers.scales(), rows.allReceived());
      turn.next(Operation.DISPATCH, plan, staging, buffers.received(), stream);
    }
  }

  /** Brings the lists to the device. Nothing launched before uses the old ones any more. */
  private void list(IntBuffer all) {
    int packed = routes.packed();
    int forwarded = routes.forwarded();
    int received = rows.allReceived();
    int entries = tokens * sizes.topK();
    int added = returns.sums().count() * sizes.topK();
    int toForward = 2 * packed;
    int toReceive = toForward + 2 * forwarded;
    int toReturn = toReceive + 2 * received;
    int toAdd = toReturn + 2 * entries;
    words.clear().limit((toAdd + 2 * added) * Integer.BYTES);
    IntBuffer ints = words.asIntBuffer();
    routes.listPacked(all, ints.slice(0, packed), ints.slice(packed, packed));
    routes.listForwarded(
        all, ints.slice(toForward, forwarded), ints.slice(toForward + forwarded, forwarded));
    routes.listReceived(all, rows, ints.slice(toReceive, received));
    returns.listOutputs(all, rows, ints.slice(toReceive + received, received));
    returns.listReturned(
        all,
        tables.weights(),
        ints.slice(toReturn, entries),
        ints.slice(toReturn + entries, entries));
    returns.listSums(all, ints.slice(toAdd, added), ints.slice(toAdd + added, added));
    lists.write(0, words);
    call =
        new Lists(
            part(0, packed),
            part(packed, packed),
            part(toForward, forwarded),
            part(toForward + forwarded, forwarded),
            part(toReceive, received),
            part(toReceive + received, received),
            part(toReturn, entries),
            part(toReturn + entries, entries),
            part(toAdd, added),
            part(toAdd + added, added));
  }

  private DeviceMemory part(int first, int count) {
    return lists.slice((long) first * Integer.BYTES, (long) count * Integer.BYTES);
  }

  /** By rank the rows that are sent to it, and those that are received of it. */
  private record Flow(IntFunction<ExpertRoutes.Rows> to, IntFunction<ExpertRoutes.Rows> from) {}

  /** Sends rows of a memory to other ranks, and receives rows of them. */
  private void exchange(DeviceMemory memory, long rowBytes, DeviceStream stream, Flow... flows) {
    GroupScope.run(
        () -> {
          for (int peer = 0; peer < sizes.nRanks(); peer++) {
            for (Flow flow : peer == rank ? new Flow[0] : flows) {
              transfers.send(part(memory, flow.to.apply(peer), rowBytes), peer, stream);
              transfers.receive(part(memory, flow.from.apply(peer), rowBytes), peer, stream);
            }
          }
        });
  }

  private static DeviceMemory part(DeviceMemory memory, ExpertRoutes.Rows rows, long rowBytes) {
    return memory.slice(rows.first() * rowBytes, rows.count() * rowBytes);
  }

  @Override
  public void combine(DeviceMemory from, DeviceMemory result, DeviceStream stream) {
    long needed = rows.allReceived() * sizes.rowBytes();
    if (from.size() < needed) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          whereCombine
              + "outputs of %d bytes for %d rows of %d"
                  .formatted(from.size(), rows.allReceived(), sizes.rowBytes()),
          "pass a row for each that was received");
    }
    try (LaunchTurn turn = launches.enter()) {
      KernelPlan plan = steps.gather(call.outputs, rows.allReceived());
      turn.first(Operation.COMBINE, plan, from, outputs.memory(), stream);
    }
    exchange(
        outputs.memory(),
        sizes.rowBytes(),
        stream,
        new Flow(returns::out, returns::back),
        new Flow(returns::forRelay, returns::added));
    addForOthers(stream);
    if (result != null) {
      receiveCombine(result, stream);
    }
  }

  /** Adds this host's outputs for tokens of others, and sends the sums. */
  private void addForOthers(DeviceStream stream) {
    ExpertRoutes.Rows sums = returns.sums();
    if (sums.count() > 0) {
      try (LaunchTurn turn = launches.enter()) {
        KernelPlan plan = steps.add(call.added, call.addedWeights, sums.count());
        DeviceMemory to = part(outputs.memory(), sums, sizes.rowBytes());
        turn.next(Operation.COMBINE, plan, outputs.memory(), to, stream);
      }
    }
    exchange(
        outputs.memory(), sizes.rowBytes(), stream, new Flow(returns::sums, returns::sumsBack));
  }

  @Override
  public void receiveCombine(DeviceMemory result, DeviceStream stream) {
    try (LaunchTurn turn = launches.enter()) {
      KernelPlan plan = steps.add(call.places, call.weights, tokens);
      turn.next(Operation.COMBINE, plan, outputs.memory(), result, stream);
    }
  }

  /** A closed communicator has freed the plans. */
  @Override
  public void close() {
    launches.discard(steps::discard);
    staging.close();
    outputs.close();
    lists.close();
    tables.close();
  }
}
