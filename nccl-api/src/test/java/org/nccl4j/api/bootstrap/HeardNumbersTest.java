package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

class HeardNumbersTest {
  @Test
  void numbersThatOvertakeOthersLoseNone() {
    HeardNumbers heard = new HeardNumbers();
    assertTrue(heard.isFirst(8));
    assertTrue(heard.isFirst(7), "sent by another thread");
    assertFalse(heard.isFirst(7), "by another root");
    assertFalse(heard.isFirst(8));
    assertTrue(heard.isFirst(9));
  }

  @Test
  void numbersFarBelowAreOld() {
    HeardNumbers heard = new HeardNumbers();
    assertTrue(heard.isFirst(1));
    assertTrue(heard.isFirst(1 + HeardNumbers.WINDOW));
    assertFalse(heard.isFirst(1));
    assertTrue(heard.isFirst(2));
    assertTrue(heard.isFirst(1000));
    assertFalse(heard.isFirst(1 + HeardNumbers.WINDOW));
    assertTrue(heard.isFirst(1001 - HeardNumbers.WINDOW));
  }

  @Test
  void eachNumberOfAShuffledRowIsHeardOnce() {
    Random random = new Random(3);
    HeardNumbers heard = new HeardNumbers();
    Set<Long> before = new HashSet<>();
    for (long next = 1; next < 5000; next++) {
      long number = Math.max(1, next - random.nextInt(HeardNumbers.WINDOW / 2));
      assertEquals(before.add(number), heard.isFirst(number), "number " + number);
    }
  }
}
