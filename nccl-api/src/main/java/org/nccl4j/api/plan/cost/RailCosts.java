package org.nccl4j.api.plan.cost;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.device.Device;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.cluster.CommTopology;

/**
 * Costs of all-to-alls between hosts: pairwise, where a rank sends a message to each rank of
 * another host, and by rails, where it sends one for all of them. As many bytes go between hosts.
 * By rails they are moved once more within the host that they have come to, after they have come,
 * and once before they leave where the ranks are not numbered host after host. Of hosts with
 * different numbers of ranks the busiest rank counts. On GPUs of a known topology the bandwidths
 * and the flight are its own, and a rank's messages to other hosts get no more than their channels
 * carry; rails are not measured there, and taken only where they are asked for.
 *
 * @param base the costs of all else
 * @param nRanks ranks
 * @param spread over hosts
 * @param packs whether parts for a host are copied together before they are sent
 * @param kind of device
 * @param topology of the hosts of GPUs, where it is known
 */
record RailCosts(
    CostModel base,
    int nRanks,
    RankPlacement spread,
    boolean packs,
    Device.Kind kind,
    Optional<CommTopology> topology)
    implements CostOverlay {
  /** The costs where there are rails. */
  static RailCosts over(
      CostModel base,
      int nRanks,
      RankPlacement spread,
      Device.Kind kind,
      Optional<CommTopology> topology) {
    return new RailCosts(base, nRanks, spread, !spread.isInOrder(), kind, topology);
  }

  @Override
  public List<Algorithm> algorithms(Operation operation) {
    if (!Algorithm.RAILS.has(operation)) {
      return base.algorithms(operation);
    }
    List<Algorithm> algorithms = new ArrayList<>(base.algorithms(operation));
    algorithms.add(0, Algorithm.RAILS);
    return algorithms;
  }

  @Override
  public boolean has(Algorithm algorithm, Protocol protocol) {
    return algorithm == Algorithm.RAILS || base.has(algorithm, protocol);
  }

  @Override
  public double microseconds(
      Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    boolean byRails = algorithm == Algorithm.RAILS;
    if (!Algorithm.RAILS.has(operation) || !byRails && algorithm != Algorithm.PAIRWISE) {
      return base.microseconds(operation, algorithm, protocol, bytes);
    }
    return byRails && kind == Device.Kind.CUDA
        ? ONLY_WHERE_ASKED + exchange(byRails, bytes)
        : exchange(byRails, bytes);
  }

  private double exchange(boolean byRails, long bytes) {
    MessageTimes times = new MessageTimes(nRanks, spread, kind, topology);
    MessageTimes.Figures of = times.figures();
    int most = spread.mostRanks();
    int fewest = spread.fewestRanks();
    int others = spread.hosts() - 1;
    double part = (double) bytes / nRanks;
    double crossing = Math.max(most * (nRanks - most), fewest * (nRanks - fewest)) * part;
    double fixed = of.flight() + bytes / (of.memory() * 1e3);
    if (!byRails) {
      int messages = nRanks - fewest;
      return fixed
          + times.crossing(crossing, messages * part, messages)
          + messages * of.message()
          + (most - 1) * of.hop();
    }
    int arrivals = others * ((most + fewest - 1) / fewest);
    return fixed
        + times.crossing(crossing, arrivals * fewest * part, arrivals)
        + arrivals * of.message()
        + of.step()
        + (arrivals + 1) * (most - 1) * of.hop()
        + arrivals * fewest * part / (of.memory() * 1e3)
        + (packs ? packing(part, of) : 0);
  }

  /** Microseconds until a rank has copied together what it has for other hosts. */
  private double packing(double part, MessageTimes.Figures of) {
    return (nRanks - spread.fewestRanks()) * (of.copy() + part / (of.memory() * 1e3));
  }

  @Override
  public String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return Algorithm.RAILS.has(operation)
        ? "formula of messages and bytes" + (topology.isPresent() ? ", topology's network" : "")
        : base.source(operation, algorithm, protocol);
  }
}
