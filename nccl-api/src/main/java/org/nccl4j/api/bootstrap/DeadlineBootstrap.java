package org.nccl4j.api.bootstrap;

import java.util.List;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.device.NcclException;

/**
 * A bootstrap whose exchanges are bounded: those of a creation by one deadline, later ones by one
 * each. The failure of an exchange is reported to all ranks, since it leaves them at different
 * steps.
 */
abstract class DeadlineBootstrap implements Bootstrap {
  private final CreationDeadline creation;
  private final CallOrder calls;

  /** A creation has begun. */
  DeadlineBootstrap(Deadline whole) {
    creation = new CreationDeadline(whole);
    calls = new CallOrder(whole.length());
  }

  /** All ranks' pieces, by rank, by a deadline. */
  abstract List<byte[]> exchange(byte[] mine, Deadline deadline);

  @Override
  public final List<byte[]> allGather(byte[] mine) {
    try {
      return exchange(mine.clone(), creation.now());
    } catch (NcclException e) {
      tellFailure(e);
      throw e;
    }
  }

  @Override
  public final CallOrder calls() {
    return calls;
  }

  @Override
  public final void barrier() {
    allGather(new byte[0]);
  }

  @Override
  public final long exchangeEnd() {
    return creation.now().nanoTime();
  }

  @Override
  public final void making() {
    creation.begin();
  }

  @Override
  public final void made() {
    creation.end();
  }
}
