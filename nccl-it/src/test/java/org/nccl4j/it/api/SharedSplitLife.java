package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;

/**
 * Splits that use their parent's connections, as they are by default, while the parent or a split
 * is suspended, grown, split once more, revoked or closed.
 */
abstract class SharedSplitLife {
  private static final int COUNT = 30_000;

  /** One for each rank of the parent, two or more. */
  abstract List<Device> devices();

  private static CommunicatorConfig named(String name) {
    return CommunicatorConfig.defaults().withName(name);
  }

  private static CommunicatorConfig config(String name) {
    return named(name)
        .withOperationTimeout(Duration.ofSeconds(60))
        .withMaxCtas(8)
        .with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  }

  private List<Communicator> parents() {
    return Communicator.initAll(devices(), config("parent"));
  }

  private static void each(List<Communicator> ranks, Consumer<Communicator> what) {
    Ranks.all(
        ranks,
        rank -> {
          what.accept(rank);
          return 0;
        });
  }

  private static <T> List<T> joined(List<CompletableFuture<T>> futures) {
    return futures.stream().map(CompletableFuture::join).toList();
  }

  private static List<Communicator> split(List<Communicator> ranks, CommunicatorConfig changes) {
    return Ranks.all(ranks, rank -> rank.split(0, -rank.rank(), changes).orElseThrow());
  }

  private static long held(Communicator comm) {
    return comm.memory().values().stream().mapToLong(Long::longValue).sum();
  }

  /** An all-reduce of each of some communicators in one group of one thread. */
  @SafeVarargs
  private static void assertWork(List<Communicator>... communicators) {
    List<Communicator> ranks = new ArrayList<>();
    List<DeviceMemory> data = new ArrayList<>();
    List<DeviceStream> streams = new ArrayList<>();
    for (List<Communicator> communicator : communicators) {
      for (Communicator rank : communicator) {
        ranks.add(rank);
        data.add(filled(rank));
        streams.add(rank.device().createStream());
      }
    }
    Group.run(
        () -> {
          for (int i = 0; i < ranks.size(); i++) {
            DeviceMemory own = data.get(i);
            ranks.get(i).allReduce(own, own, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(i));
          }
        });
    streams.forEach(DeviceStream::synchronize);
    for (int i = 0; i < ranks.size(); i++) {
      Communicator rank = ranks.get(i);
      int n = rank.nRanks();
      ByteBuffer got = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
      data.get(i).read(0, got);
      for (int element = 0; element < COUNT; element++) {
        assertEquals(n * (n + 1) / 2f, got.getFloat(4 * element), rank::toString);
      }
    }
    streams.forEach(DeviceStream::close);
    data.forEach(DeviceMemory::close);
  }

  private static DeviceMemory filled(Communicator rank) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * COUNT).order(ByteOrder.nativeOrder());
    while (data.hasRemaining()) {
      data.putFloat(1 + rank.rank());
    }
    DeviceMemory memory = rank.device().allocate(4 * COUNT);
    memory.write(0, data.flip());
    return memory;
  }

  /** By one rank. */
  private static NcclException failure(Communicator rank) {
    try (DeviceMemory data = filled(rank);
        DeviceStream stream = rank.device().createStream()) {
      return assertThrows(
          NcclException.class,
          () -> {
            rank.allReduce(data, data, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
            stream.synchronize();
          },
          rank.toString());
    }
  }

  private static void assertCannotBeSuspended(List<Communicator> ranks, String why) {
    each(
        ranks,
        rank -> {
          InvalidUsageException e =
              assertThrows(InvalidUsageException.class, rank::suspend, rank.toString());
          assertTrue(e.problem().contains(why), e.problem());
          assertTrue(e.problem().contains("withSplitShare(false)"), e.problem());
          assertFalse(rank.isSuspended());
        });
  }

  private static void close(List<Communicator> ranks) {
    ranks.forEach(Communicator::close);
  }

  @Test
  void whatSharesIsNotSuspended() {
    List<Communicator> parents = parents();
    List<Communicator> shared = split(parents, named("shared"));
    List<Communicator> own = split(parents, named("own").withSplitShare(false));
    shared.forEach(rank -> assertEquals(0, held(rank), rank.toString()));
    own.forEach(rank -> assertNotEquals(0, held(rank), rank.toString()));
    assertCannotBeSuspended(parents, "split from it use its connections");
    assertCannotBeSuspended(shared, "it was split from another communicator");
    assertWork(parents, shared, own);
    close(shared);
    each(parents, Communicator::suspend);
    assertWork(own);
    parents.forEach(rank -> assertThrows(InvalidUsageException.class, () -> rank.split(0, 0)));
    each(parents, Communicator::resume);
    shared = split(parents, named("shared again"));
    assertWork(shared, parents, own);
    shared.forEach(rank -> assertEquals(0, held(rank), rank.toString()));
    close(parents);
    List<Communicator> grandchildren = split(shared, named("grandchild"));
    assertCannotBeSuspended(shared, "it was split from another communicator");
    close(shared);
    assertCannotBeSuspended(grandchildren, "it was split from another communicator");
    each(own, Communicator::suspend);
    assertWork(grandchildren);
    each(own, Communicator::resume);
    assertWork(own, grandchildren);
    close(grandchildren);
    close(own);
  }

  @Test
  void splitsOfABackgroundThreadShareToo() {
    List<Communicator> parents = parents();
    for (int round = 0; round < 3; round++) {
      List<List<CompletableFuture<Communicator>>> making = new ArrayList<>();
      for (int which = 0; which < 4; which++) {
        CommunicatorConfig changes = named("split " + round + "." + which);
        making.add(
            parents.stream()
                .map(
                    rank ->
                        rank.splitAsync(0, -rank.rank(), changes)
                            .thenApply(made -> made.orElseThrow()))
                .toList());
      }
      List<List<Communicator>> made = making.stream().map(SharedSplitLife::joined).toList();
      made.forEach(split -> split.forEach(rank -> assertEquals(0, held(rank), rank.toString())));
      assertWork(made.get(3), made.get(0), parents, made.get(2), made.get(1));
      assertCannotBeSuspended(parents, "split from it use its connections");
      made.subList(1, 4).forEach(SharedSplitLife::close);
      assertWork(parents, made.get(0));
      close(made.get(0));
      each(parents, Communicator::suspend);
      each(parents, Communicator::resume);
      assertWork(parents);
    }
    close(parents);
  }

  /** A grown communicator has one rank more, and connections of its own. */
  @Test
  void whatGrowsSharesNothing() {
    List<Communicator> parents = parents();
    List<Communicator> shared = split(parents, named("shared"));
    List<Communicator> ofParent = grown(parents, "of the parent");
    List<Communicator> ofSplit = grown(shared, "of the split");
    assertWork(ofSplit, parents, ofParent, shared);
    close(ofSplit);
    List<Communicator> children = split(ofParent, named("of what has grown"));
    assertCannotBeSuspended(parents, "split from it use its connections");
    assertCannotBeSuspended(ofParent, "split from it use its connections");
    assertWork(children, shared, ofParent, parents);
    close(shared);
    each(parents, Communicator::suspend);
    assertWork(children, ofParent);
    each(parents, Communicator::resume);
    close(children);
    each(ofParent, Communicator::suspend);
    assertWork(parents);
    each(ofParent, Communicator::resume);
    assertWork(ofParent, parents);
    close(ofParent);
    close(parents);
  }

  private List<Communicator> grown(List<Communicator> ranks, String name) {
    int n = ranks.size();
    UniqueId id = UniqueId.create();
    List<CompletableFuture<Communicator>> growing =
        new ArrayList<>(
            ranks.stream().map(rank -> rank.growAsync(n + 1, id, config(name))).toList());
    growing.add(Communicator.initRankAsync(n + 1, id, n, devices().get(n % 2), config(name)));
    List<Communicator> made = new ArrayList<>(joined(growing));
    made.sort((one, other) -> Integer.compare(one.rank(), other.rank()));
    return made;
  }

  @Test
  void whatIsRevokedIsSoWithAllThatShare() {
    List<Communicator> parents = parents();
    List<Communicator> first = split(parents, named("first"));
    List<Communicator> second = split(first, named("second"));
    List<Communicator> own = split(first, named("own").withSplitShare(false));
    List<Communicator> grown = grown(parents, "grown");
    assertWork(second, parents, first, own, grown);
    first.get(1).revoke();
    String why = "communicator first was revoked by rank " + first.get(1).rank();
    for (List<Communicator> failed : List.of(second, parents, first)) {
      for (NcclException e : Ranks.all(failed, SharedSplitLife::failure)) {
        assertTrue(e.getMessage().contains(why), e.toString());
      }
      each(failed, rank -> assertTrue(rank.asyncError().isPresent(), rank.toString()));
      each(failed, rank -> assertThrows(NcclException.class, rank::suspend));
    }
    List<Communicator> again = split(first, named("again"));
    assertWork(own, grown, again);
    List<Communicator> left = Ranks.all(parents, rank -> rank.shrink(Set.of(), ShrinkMode.ABORT));
    List<Communicator> children = split(left, named("after"));
    children.forEach(rank -> assertEquals(0, held(rank), rank.toString()));
    assertWork(children, grown, left, own, again);
    List.of(children, second, first, own, grown, parents, left, again)
        .forEach(SharedSplitLife::close);
  }
}
