package org.nccl4j.transport.net;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.Connection.ExposedSteps;
import org.nccl4j.device.connection.Connection.PlacedSteps;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.support.CloseAll;
import org.nccl4j.device.support.KeptMemory;
import org.nccl4j.transport.net.memory.EndMemory;
import org.nccl4j.transport.net.memory.ExposedBuffers;
import org.nccl4j.transport.net.memory.GpuBuffers;
import org.nccl4j.transport.net.memory.GpuEndMemory;
import org.nccl4j.transport.net.memory.HostEndMemory;
import org.nccl4j.transport.net.memory.KernelExposures;
import org.nccl4j.transport.net.memory.KernelPlaces;
import org.nccl4j.transport.net.memory.LineMark;
import org.nccl4j.transport.net.memory.PlacedBuffers;
import org.nccl4j.transport.net.memory.ProxyChannel;
import org.nccl4j.transport.net.proxy.EndpointNames;
import org.nccl4j.transport.net.proxy.PolledProxies;
import org.nccl4j.transport.net.proxy.StepEvents;

/**
 * One end of a connection over a network: both regions, in memory of its own. Each channel has a
 * connection of the network to itself: where one's messages are not taken for a while, those of
 * another must not wait behind them.
 */
public abstract class NetEnd implements NetConnector {
  /** The connection that operations go by. */
  public static final int OPERATIONS = 0;

  /** The connection whose slots the processor reaches too, for messages. */
  static final int MESSAGES = 1;

  /**
   * Least bytes of a step that is sent from where it lies. Of fewer, a copy costs less than waiting
   * until they have been sent.
   */
  static final int LEAST_EXPOSED = 64 << 10;

  /**
   * The same of a step that is received where it is wanted, if the sender need not be told of that.
   */
  static final int LEAST_PLACED = 16 << 10;

  /** The same of a GPU's put. */
  static final int LEAST_PUT = 16 << 10;

  private static final System.Logger LOG = DebugLog.of("NET");

  final PeerInfo peer;
  private final TransportContext context;
  private final NicChoice card;
  private final boolean reads;
  private final int which;
  private final int channels;
  private final boolean gpu;

  /** Of the messages in LL of a GPU's channels. */
  private final LineMark lines;

  private EndMemory memory; // null after a failure to have it
  private final List<NetConnection> networks = new ArrayList<>();
  private final List<ProxyChannel> registered = new ArrayList<>();
  private ProxyHandler proxy;

  /**
   * The steps that kernels or puts of a GPU expose or want in buffers, on the first channel; null
   * where there are none.
   */
  private ExposedSteps exposed;

  private PlacedSteps placed;
  private boolean closed;

  /**
   * An end.
   *
   * @param card what it goes by
   * @param reads whether the card reads from the slots, and does not write into them
   * @param which its connection among those of the two ranks
   * @param channels of the connection
   */
  NetEnd(
      TransportContext context,
      PeerInfo peer,
      NicChoice card,
      boolean reads,
      int which,
      int channels) {
    this.peer = peer;
    this.context = context;
    this.card = card;
    this.reads = reads;
    this.which = which;
    this.gpu = context.device() instanceof CudaDevice;
    this.lines =
        gpu && which == OPERATIONS ? LineMark.of(card.net().carriesNotes()) : LineMark.NONE;
    this.channels = channels;
    this.memory = card.memory(reads, channels, lines).orElseGet(this::hostMemory);
  }

  /** The channels of this rank's own connections with a peer. */
  static int channels(TransportContext context, PeerInfo peer) {
    return context.device() instanceof CudaDevice ? NetChannelCount.of(context, peer.rank()) : 1;
  }

  private EndMemory hostMemory() {
    if (card.shared()) {
      return HostEndMemory.shared(context.layout(), channels, gpu, lines);
    }
    return context.device() instanceof CudaDevice device
        ? new HostEndMemory(device, context.layout(), channels, lines)
        : new HostEndMemory(context.layout());
  }

  /** Returns the number of channels, which is the number of network connections. */
  final int channels() {
    return channels;
  }

  /** Takes over the network's connections, once they are made, by channel. */
  final void connected(List<? extends NetConnection> made) {
    networks.addAll(made);
    try {
      register(made);
    } catch (NcclException e) {
      if (!(memory instanceof GpuEndMemory)) {
        throw e;
      }
      registered.forEach(ProxyChannel::close);
      registered.clear();
      EndMemory refused = memory;
      memory = null;
      refused.close();
      card.giveUp(reads, e);
      memory = hostMemory();
      register(made);
    }
    List<ProxyHandler> proxies = new ArrayList<>();
    for (int number = 0; number < made.size(); number++) {
      proxies.add(proxy(number, registered.get(number)));
    }
    // Other ranks' kernels fill slots without giving turns, so the proxies poll.
    proxy = gpu || card.shared() ? new PolledProxies(proxies) : proxies.get(0);
  }

  private void register(List<? extends NetConnection> made) {
    for (int number = 0; number < made.size(); number++) {
      registered.add(memory.channel(number, made.get(number)));
    }
  }

  /** Returns the handler that moves the data of a channel. */
  abstract ProxyHandler proxy(int number, ProxyChannel channel);

  /** Returns the events of a channel's steps. */
  final StepEvents events(ProxyChannel channel) {
    return new StepEvents(
        ranks(), which, reads, channel, context.proxySteps(), context.stepTimes());
  }

  /** True if kernels of a GPU use it, which give proxies no turns. */
  final boolean isPolled() {
    return gpu;
  }

  /** Both ends, for messages. */
  EndpointNames ranks() {
    return new EndpointNames(context.rank(), peer.rank());
  }

  final EndMemory memory() {
    return memory;
  }

  @Override
  public Connection connection() {
    return memory.connection().withBuffers(exposed, placed);
  }

  @Override
  public final Optional<ProxyHandler> proxy() {
    return Optional.of(proxy);
  }

  private static boolean zeroCopy(TransportContext context) {
    return !context.get(Settings.NCCL4J_NET_ZERO_COPY).equals("off");
  }

  /** True if kernels of the host device may expose buffers at all. */
  static boolean isZeroCopy(TransportContext context) {
    return zeroCopy(context) && !context.get(Settings.NCCL4J_SINGLE_COPY).equals("off");
  }

  /** True if networks that need no registration take any buffer. */
  static boolean takesAll(TransportContext context) {
    return isZeroCopy(context) && context.get(Settings.NCCL4J_NET_ZERO_COPY).equals("all");
  }

  /** True if kernels of this rank itself may have their buffers used. */
  private boolean usesBuffers() {
    return !gpu && !card.shared() && isZeroCopy(context);
  }

  /** The NIC's access to this rank's GPU for its own kernels and puts; empty if it has none. */
  private Optional<GpuBuffers> gpuBuffers(ProxyChannel channel) {
    boolean used = !isOfMessages() || channel.number() == 0;
    return gpu && !card.shared() && used && zeroCopy(context)
        ? card.buffers(reads)
        : Optional.empty();
  }

  /** The buffers in which kernels or puts may want a connection of the network to receive. */
  final Optional<PlacedBuffers> placedBuffers(ProxyChannel channel, NetReceiver receiver) {
    Optional<GpuBuffers> access = gpuBuffers(channel);
    if (access.isPresent()) {
      PlacedSteps steps =
          isOfMessages()
              ? ((CudaDevice) context.device()).placedPuts()
              : new KernelPlaces(channel, memory.connection());
      placed = placed == null ? steps : placed;
      return Optional.of(new PlacedBuffers(steps, access.get()));
    }
    return placedSteps(receiver).map(steps -> new PlacedBuffers(steps, null));
  }

  private Optional<PlacedSteps> placedSteps(NetReceiver receiver) {
    if (!usesBuffers()) {
      return Optional.empty();
    }
    boolean freely = receiver.registersFreely();
    if (freely && !takesAll(context)) {
      return Optional.empty();
    }
    int least = freely ? LEAST_PLACED : LEAST_EXPOSED;
    return Optional.of(
        HostDevice.instance()
            .placedSteps(
                connection(), least, /* registered= */ !freely, /* awaited= */ isOfMessages()));
  }

  /** True if it carries messages of puts. */
  final boolean isOfMessages() {
    return which == MESSAGES;
  }

  /**
   * The buffers that kernels or puts may expose to a connection of the network, which sends from
   * there. Puts of the host expose over sockets by request alone: some small ones took a
   * millisecond that way.
   */
  final Optional<ExposedBuffers> exposedBuffers(ProxyChannel channel, NetSender sender) {
    Optional<GpuBuffers> access = gpuBuffers(channel);
    if (access.isPresent()) {
      CudaDevice device = (CudaDevice) context.device();
      ExposedSteps steps =
          isOfMessages()
              ? device.exposedPuts(memory.connection(), context.layout(), LEAST_PUT)
              : new KernelExposures(channel, memory.connection(), context.layout(), device.gpu());
      exposed = exposed == null ? steps : exposed;
      return Optional.of(
          new ExposedBuffers(steps, sender, /* placed= */ isOfMessages(), access.get()));
    }
    if (!usesBuffers() || isOfMessages() && sender.registersFreely() && !takesAll(context)) {
      return Optional.empty();
    }
    boolean registered = !takesAll(context) || !sender.registersFreely();
    LOG.log(
        Level.DEBUG,
        "rank {0} to rank {1}: from {2} bytes a step on, data are sent from {3}buffers, without a"
            + " copy",
        context.rank(),
        peer.rank(),
        LEAST_EXPOSED,
        registered ? "registered " : "");
    ExposedSteps steps =
        HostDevice.instance()
            .exposedSteps(connection(), context.layout(), LEAST_EXPOSED, registered);
    return Optional.of(new ExposedBuffers(steps, sender, /* placed= */ isOfMessages(), null));
  }

  /** Closes what the proxies have. */
  abstract void closeProxies(CloseAll all);

  /** Closes what belongs to connections of the network that are not made. */
  abstract void closeUnmade(CloseAll all);

  /** Frees all, whatever fails; the memory stays if a thread of the network may still use it. */
  @Override
  public final void close() {
    if (closed) {
      return;
    }
    closed = true;
    CloseAll all = new CloseAll();
    closeProxies(all);
    registered.forEach(channel -> all.take(channel::close));
    closeUnmade(all);
    Optional<TimeoutException> late = closeNetworks(all);
    if (memory != null) {
      late.ifPresentOrElse(this::keep, () -> all.take(memory::close));
    }
    all.end();
  }

  /** Returns why a thread of the network may go on; empty if none does. */
  private Optional<TimeoutException> closeNetworks(CloseAll all) {
    List<TimeoutException> late = new ArrayList<>();
    for (NetConnection network : networks) {
      try {
        network.close();
      } catch (TimeoutException e) {
        late.add(e);
      } catch (RuntimeException e) {
        all.take(
            () -> {
              throw e;
            });
      }
    }
    return late.stream().findFirst();
  }

  private void keep(TimeoutException late) {
    KeptMemory.keep(
        this, "the connection with rank " + peer.rank(), memory.bytes(), late.problem());
  }
}
