package org.nccl4j.api.init;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.CallOrder;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/**
 * The bootstrap of a communicator that shares its parent's connections: created at its first
 * exchange, which few such communicators ever have. Failures go over the parent's bootstrap, since
 * parent and split fail together; they also end an exchange, and the wait for its first.
 */
final class LazyBootstrap implements Bootstrap {
  private final Bootstrap parent;
  private final List<Integer> parentRanks;
  private final int rank;
  private final Supplier<Bootstrap> making;
  private final CallOrder calls;
  private volatile Bootstrap made;
  private volatile boolean closed;

  /**
   * A bootstrap to be made.
   *
   * @param parentRanks its ranks, as ranks of the parent
   * @param key of the meeting
   */
  LazyBootstrap(Bootstrap parent, List<Integer> parentRanks, byte[] lead, String key) {
    this.parent = parent;
    this.parentRanks = parentRanks;
    this.rank = parentRanks.indexOf(parent.rank());
    this.calls = parent.calls().another();
    this.making = () -> parent.subset(parentRanks, lead, key);
  }

  private synchronized Bootstrap underneath() {
    if (made == null) {
      checkOpen();
      made = making.get();
      made.made();
      if (closed) {
        made.close();
        checkOpen();
      }
    }
    return made;
  }

  private void checkOpen() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "a closed communicator makes an exchange with its other ranks",
          "close a communicator after its last use");
    }
  }

  @Override
  public int rank() {
    return rank;
  }

  @Override
  public int nRanks() {
    return parentRanks.size();
  }

  @Override
  public byte[] secret() {
    return underneath().secret();
  }

  @Override
  public List<byte[]> allGather(byte[] mine) {
    return underneath().allGather(mine);
  }

  @Override
  public CallOrder calls() {
    return calls;
  }

  @Override
  public void barrier() {
    underneath().barrier();
  }

  @Override
  public long exchangeEnd() {
    return underneath().exchangeEnd();
  }

  @Override
  public void making() {
    underneath().making();
  }

  @Override
  public void made() {
    Bootstrap open = made;
    if (open != null) {
      open.made();
    }
  }

  @Override
  public void tellFailure(NcclException cause) {
    parent.tellFailure(cause);
  }

  @Override
  public void onFailure(Consumer<NcclException> listener) {
    parent.onFailure(listener);
  }

  @Override
  public void checkFailure() {
    parent.checkFailure();
  }

  @Override
  public void tellNotice(byte[] notice) {
    parent.tellNotice(notice);
  }

  @Override
  public void onNotice(Consumer<byte[]> listener) {
    parent.onNotice(listener);
  }

  @Override
  public void onAsked(UnaryOperator<byte[]> listener) {
    parent.onAsked(listener);
  }

  @Override
  public void onCall(CallListener listener) {
    parent.onCall(listener);
  }

  @Override
  public CompletableFuture<byte[]> call(byte[] point, byte[] request) {
    return parent.call(point, request);
  }

  @Override
  public byte[] meetingPoint() {
    return parent.meetingPoint();
  }

  @Override
  public Bootstrap reunite(List<Integer> members, byte[] lead, String key) {
    return parent.reunite(members.stream().map(parentRanks::get).toList(), lead, key);
  }

  @Override
  public Bootstrap subset(List<Integer> members, byte[] lead, String key) {
    return parent.subset(members.stream().map(parentRanks::get).toList(), lead, key);
  }

  /** Does not wait for a thread that makes the bootstrap; that one closes it. */
  @Override
  public void close() {
    closed = true;
    Bootstrap open = made;
    if (open != null) {
      open.close();
    }
  }
}
