package org.nccl4j.api.spi;

import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;

/** The communicator's facts for a transport. */
public interface TransportContext extends NetContext {
  /** All ranks, by rank, this one included. */
  List<PeerInfo> peers();

  /** This rank's device. */
  Device device();

  @Override
  default int ranks() {
    return peers().size();
  }

  @Override
  default boolean sharesThread() {
    return device().kind() == Device.Kind.CUDA;
  }

  /** The sizes and the layout of the two regions of each connection. */
  ConnectionLayout layout();

  /** The networks that can be used on this rank, best first. */
  List<NetProvider> nets();

  /**
   * Checks whether a network's device may access the memory of this rank's GPU, according to the
   * machine's topology and the settings of distance (such as NCCL_NET_GDR_LEVEL). The reason is a
   * clause.
   *
   * @param reads true to read that memory, for sends; false to write it
   */
  default Support directAccess(NetDevice device, boolean reads) {
    return Support.no("the machine's topology is not known");
  }

  /**
   * Checks whether this rank's GPU and another rank's GPU of its machine may use each other's
   * memory, according to the machine's topology and the settings of distance (NCCL_P2P_LEVEL,
   * NCCL_P2P_DISABLE). The reason is a clause. The driver's support is not checked.
   */
  default Support directAccess(PeerInfo peer) {
    return Support.yes("the machine's topology is not known");
  }

  /**
   * A network device as the machine's topology has it, whatever the network says of its own.
   *
   * @param names that networks may have for it
   * @param speed relative to those of others
   */
  record NearNet(List<String> names, float speed) {
    /** Copies the list. */
    public NearNet {
      names = List.copyOf(names);
    }
  }

  /**
   * The networks' devices that are nearest to this rank's GPU, in the order in which the rank
   * should use them; empty if unknown.
   */
  default List<NearNet> nearestNets() {
    return List.of();
  }

  /**
   * Returns the number of channels that are needed to use all NICs of the hosts at full speed,
   * according to the machines' topology; the same on all ranks; 0 if unknown.
   */
  default int netChannels() {
    return 0;
  }

  /**
   * True if the channels of a connection from one rank to another take turns with the nearest
   * devices of both ends, according to the machines' topology: the GPU beside the devices through
   * which data leave, the first rank's or that of {@link #egressTo}, has as many as the other
   * rank's, of the same speeds in the same order. Then both ends assign channels to devices alike.
   * False if unknown. The same on all ranks that have the same NCCL_PXN_DISABLE, NCCL_P2P_PXN_LEVEL
   * and NCCL_CROSS_NIC, which the creation does not compare.
   */
  default boolean takesTurns(int from, int to) {
    return false;
  }

  /**
   * True if collectives need the channels of all NICs between this rank and another: rings, trees
   * or the like lead from one to the other. Between other ranks fewer channels are enough. The same
   * on both ranks.
   */
  default boolean isNeighbour(int peer) {
    return true;
  }

  /**
   * The device, and the rank of this host, through which data for a rank of another host should
   * leave, according to the machine's topology and the settings (such as NCCL_PXN_DISABLE and
   * NCCL_P2P_PXN_LEVEL); empty if this rank's own devices are as good.
   */
  default Optional<NetEgress> egressTo(int peer) {
    return Optional.empty();
  }

  /**
   * The device, and the rank of its host, through which data of a rank of another host for this
   * rank should leave: what {@link #egressTo} is on that rank.
   */
  default Optional<NetEgress> egressFrom(int peer) {
    return Optional.empty();
  }

  /**
   * The listener of the steps of this rank's proxies; empty without listeners, at no cost for
   * proxies. Always the same. It never throws, and proxies of several connections may call it at
   * once.
   */
  default Optional<Consumer<Profiler.ProxyStep>> proxySteps() {
    return Optional.empty();
  }

  /**
   * A step of a proxy that has ended.
   *
   * @param peer the rank at the other end
   * @param sends true for a send, false for a receive
   * @param number among the steps of its channel in this direction, from 0
   * @param bytes of its data
   * @param zeroCopy whether from, or into, the buffer of the operation
   */
  record EndedStep(int peer, boolean sends, long number, int bytes, boolean zeroCopy) {}

  /** Takes the times of proxies' steps while an observer of the job records. Any thread. */
  interface StepTimes {
    /** Takes none. */
    StepTimes NONE =
        new StepTimes() {
          @Override
          public long begin() {
            return 0;
          }

          @Override
          public void ended(EndedStep step, long beginNanos) {}
        };

    /**
     * Called when a step is posted; costs a look at a word while nobody records.
     *
     * @return the time by {@link System#nanoTime}, for {@link #ended}; 0 for a step that is not
     *     recorded
     */
    long begin();

    /** Called when a step has ended of which {@link #begin} has returned a time. */
    void ended(EndedStep step, long beginNanos);
  }

  /** The times of this rank's proxies' steps; always the same. It never throws. */
  default StepTimes stepTimes() {
    return StepTimes.NONE;
  }
}
