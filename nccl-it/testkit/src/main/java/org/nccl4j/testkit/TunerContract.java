package org.nccl4j.testkit;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.CostTable;
import org.nccl4j.api.spi.Tuner;
import org.nccl4j.api.spi.TunerContext;
import org.nccl4j.api.spi.TunerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * The contract of every tuner. Its author extends this class, implements its creation, and runs the
 * checks.
 */
public abstract class TunerContract {
  private static final long[] SIZES = {1, 512, 4096, 1 << 20, 1L << 34};

  /** Called by subclasses. */
  protected TunerContract() {}

  /** A new provider. */
  protected abstract TunerProvider provider();

  /** All checks. */
  public final List<Check> checks() {
    return List.of(
        new Check("its name is of at most 32 letters, digits and hyphens", this::name),
        new Check("ranks of the same communicator make the same edits", this::alike),
        new Check("it leaves a choice for every collective", this::leavesAWay),
        new Check("it works for communicators of every size", this::everySize));
  }

  private void name() {
    String name = provider().name();
    Expect.that(name.matches("[A-Za-z0-9-]{1,32}"), "the name is '%s'", name);
    Expect.equal(name, provider().name(), "the name of another instance");
  }

  private static TunerContext context(int nRanks) {
    return new TunerContext("contract", nRanks, 1, Device.Kind.HOST);
  }

  private static Table edited(Tuner tuner, Operation collective, long bytes) {
    Table table = new Table();
    tuner.tune(collective, bytes, DataType.FLOAT32, table);
    return table;
  }

  private void alike() {
    Tuner first = provider().open(context(4));
    Tuner second = provider().open(context(4));
    for (Operation collective : Operation.collectives()) {
      for (long bytes : SIZES) {
        Table expected = edited(first, collective, bytes);
        Expect.equal(expected.ways, edited(second, collective, bytes).ways, "another rank's table");
        Expect.equal(expected.ways, edited(first, collective, bytes).ways, "the same table again");
      }
    }
  }

  private void leavesAWay() {
    Tuner tuner = provider().open(context(4));
    for (Operation collective : Operation.collectives()) {
      for (long bytes : SIZES) {
        Expect.that(
            edited(tuner, collective, bytes).ways.stream()
                .anyMatch(way -> Double.isFinite(way.microseconds())),
            "%s of %d bytes: everything is forbidden",
            collective.label(),
            bytes);
      }
    }
  }

  private void everySize() {
    for (int nRanks : new int[] {1, 2, 3, 8, 1000}) {
      edited(provider().open(context(nRanks)), Operation.ALL_REDUCE, 1 << 16);
    }
  }

  /** A table that refuses what the engine's refuses. */
  private static final class Table implements CostTable {
    private final List<Way> ways = new ArrayList<>();

    Table() {
      for (Algorithm algorithm : List.of(Algorithm.RING, Algorithm.TREE, Algorithm.ONE_SHOT)) {
        for (Protocol protocol : List.of(Protocol.LL, Protocol.SIMPLE)) {
          ways.add(new Way(algorithm, protocol, 1 + ways.size()));
        }
      }
    }

    @Override
    public List<Way> ways() {
      return List.copyOf(ways);
    }

    @Override
    public void set(Algorithm algorithm, Protocol protocol, double microseconds) {
      Expect.that(microseconds >= 0, "a time of %s", microseconds);
      boolean replaced = false;
      for (int w = 0; w < ways.size(); w++) {
        Way way = ways.get(w);
        if (way.algorithm() == algorithm && way.protocol() == protocol) {
          ways.set(w, new Way(algorithm, protocol, microseconds));
          replaced = true;
        }
      }
      Expect.that(
          replaced, "%s %s is set, which is not in the table", algorithm.label(), protocol.label());
    }
  }
}
