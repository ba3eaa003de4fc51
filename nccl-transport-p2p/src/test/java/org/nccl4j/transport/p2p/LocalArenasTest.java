package org.nccl4j.transport.p2p;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class LocalArenasTest {
  private static final long PATIENCE_NANOS = 300_000_000_000L;

  private final List<String> freed = new ArrayList<>();
  private final LocalArenas<String> arenas = new LocalArenas<>(freed::add);

  @Test
  void theLastUserFreesAnArenaAndItsNumberIsForgotten() {
    LocalArenas<String>.Arena own = arenas.create("memory");
    String number = Long.toString(own.number());
    assertSame(own, arenas.find(number));
    own.release();
    assertEquals(List.of(), freed);
    assertSame(own, arenas.find(number), "another rank uses it");
    own.release();
    own.release();
    assertEquals(List.of("memory"), freed);
    assertNull(arenas.find(number));
    assertEquals(0, arenas.size());
  }

  @Test
  void numbersOfNoArenaAreNotFound() {
    arenas.create("memory");
    for (String number : List.of("", "0", "-1", "x", "9".repeat(18), "9".repeat(19), "1 ")) {
      assertNull(arenas.find(number), number);
    }
  }

  /** A communicator that its program drops leaves no entry for ever. */
  @Test
  void droppedArenasAreForgotten() {
    for (int i = 0; i < 100; i++) {
      arenas.create("dropped " + i);
    }
    LocalArenas<String>.Arena kept = arenas.create("kept");
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (arenas.size() > 2 && System.nanoTime() < end) {
      System.gc();
      arenas.create("another").release();
    }
    assertTrue(arenas.size() <= 2, arenas.size() + " arenas");
    assertSame(kept, arenas.find(Long.toString(kept.number())));
  }
}
