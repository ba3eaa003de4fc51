package org.nccl4j.transport.net.memory;

import java.lang.System.Logger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * Slots of a rank's connections in its GPU's memory, where network cards can be given that. After a
 * failure it is not tried again: a warning says so, and later slots are in pinned memory of the
 * host. Called by one thread at a time.
 */
public final class GpuSlots implements AutoCloseable {
  private static final Logger LOG = DebugLog.of("NET");

  private final TransportContext context;
  private final CudaDevice gpu;
  private final Map<String, GpuDirectChoice> choices = new HashMap<>();
  private final Set<String> told = new HashSet<>();
  private final List<GdrSlotPool> banks = new ArrayList<>();

  /** The pools for ends whose slots other ranks' kernels fill. */
  private final List<GdrSlotPool> sharedBanks = new ArrayList<>();

  public GpuSlots(TransportContext context, CudaDevice gpu) {
    this.context = context;
    this.gpu = gpu;
  }

  /**
   * Returns whether cards access slots directly.
   *
   * @param reads whether to send from them, and not to receive into them
   */
  GpuDirectChoice choice(List<NetDevice> cards, boolean reads) {
    return choices.computeIfAbsent(
        key(cards, reads),
        missing ->
            GpuDirectChoice.ofAll(
                cards.stream()
                    .map(
                        card ->
                            GpuDirectChoice.ofSlots(
                                gpu.gpu().gpuDirect(),
                                card,
                                context,
                                context.directAccess(card, reads)))
                    .toList()));
  }

  /**
   * Access to users' memory of the GPU; empty, with a line in the log, if a card has none.
   *
   * @param reads whether to send from it, and not to receive into it
   */
  public Optional<GpuBuffers> buffers(List<NetDevice> cards, boolean reads) {
    GpuDirectChoice choice =
        GpuDirectChoice.ofAll(
            cards.stream()
                .map(
                    card ->
                        GpuDirectChoice.of(
                            gpu.gpu().gpuDirect(),
                            card,
                            context,
                            context.directAccess(card, reads)))
                .toList());
    if (told.add(key(cards, reads))) {
      LOG.log(
          Logger.Level.INFO,
          "rank {0}: puts, large sends and receives of other hosts are {1} registered memory of {2} by"
              + " {3} {4}",
          context.rank(),
          reads ? "sent from" : "received in",
          gpu,
          names(cards),
          choice.describe());
    }
    return choice.possible()
        ? Optional.of(new GpuBuffers(gpu.gpu(), choice.ways()))
        : Optional.empty();
  }

  private static String key(List<NetDevice> cards, boolean reads) {
    return (reads ? "send " : "recv ") + names(cards);
  }

  private static String names(List<NetDevice> cards) {
    return cards.stream().map(NetDevice::name).collect(Collectors.joining(" and "));
  }

  /** Returns the choice for both directions, in words. */
  public String describe(List<NetDevice> cards) {
    String receive = words(choice(cards, false));
    String send = words(choice(cards, true));
    return receive.equals(send)
        ? "%s; GPUDirect: %s".formatted(names(cards), send)
        : "%s; GPUDirect to receive: %s; to send: %s".formatted(names(cards), receive, send);
  }

  private static String words(GpuDirectChoice choice) {
    return (choice.possible() ? "yes, " : "no, ") + choice.reason();
  }

  /**
   * Memory for an end; empty where pinned memory of the host has to do.
   *
   * @param shared whether it is for another rank's kernels
   * @param lines mark of messages in LL, which an end in host memory may look for
   */
  public Optional<EndMemory> end(
      List<NetDevice> cards, boolean reads, boolean shared, int channels, LineMark lines) {
    GpuDirectChoice choice = choice(cards, reads);
    if (!choice.possible()) {
      return Optional.empty();
    }
    ConnectionLayout layout = context.layout();
    long used = (long) channels * (layout.simpleSlotBytes() / ConnectionLayout.CHANNELS);
    try {
      return Optional.of(
          new GpuEndMemory(bank(layout, used, shared), layout, channels, lines, choice.ways()));
    } catch (NcclException e) {
      giveUp(cards, reads, e);
      return Optional.empty();
    }
  }

  private GdrSlotPool bank(ConnectionLayout layout, long used, boolean shared) {
    List<GdrSlotPool> those = shared ? sharedBanks : banks;
    return GdrSlotPool.withRoom(those, used)
        .orElseGet(
            () -> {
              GdrSlotPool another = new GdrSlotPool(gpu, layout, used, shared);
              those.add(another);
              return another;
            });
  }

  /** A card does not take the memory, or there is none: pinned memory from now on. */
  public void giveUp(List<NetDevice> cards, boolean reads, NcclException cause) {
    choices.put(key(cards, reads), GpuDirectChoice.no(cause.problem()));
    for (List<GdrSlotPool> those : List.of(banks, sharedBanks)) {
      those.stream().filter(GdrSlotPool::isDeserted).forEach(GdrSlotPool::close);
      those.removeIf(GdrSlotPool::isDeserted);
    }
    LOG.log(
        Logger.Level.WARNING,
        "rank {0}: {1} does not {2} the memory of {3} itself, data go through pinned memory of"
            + " the host instead, which is slower: {4}; {5}, or set NCCL_NET_GDR_LEVEL=LOC to"
            + " disable GPUDirect",
        context.rank(),
        names(cards),
        reads ? "read" : "write",
        gpu,
        cause.problem(),
        cause.remedy());
  }

  /** Bytes of the GPU's memory. */
  public long bytes() {
    return Stream.of(banks, sharedBanks).flatMap(List::stream).mapToLong(GdrSlotPool::bytes).sum();
  }

  @Override
  public void close() {
    for (List<GdrSlotPool> those : List.of(banks, sharedBanks)) {
      those.forEach(GdrSlotPool::close);
      those.clear();
    }
  }
}
