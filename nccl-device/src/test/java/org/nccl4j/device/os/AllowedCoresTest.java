package org.nccl4j.device.os;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.BitSet;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AllowedCoresTest {
  private static AllowedCores bound(String list) {
    return new AllowedCores(AllowedCores.parse(list).cardinality(), list);
  }

  private static int together(AllowedCores... ranks) {
    return AllowedCores.together(List.of(ranks));
  }

  /** As launchers bind them. */
  @Test
  void ranksThatAreBoundToACoreEachHaveAsManyCores() {
    assertEquals(2, together(bound("0"), bound("1")));
    assertEquals(4, together(bound("0,64"), bound("1,65"), bound("0,65")));
    assertEquals(8, together(bound("0-3"), bound("4-7"), bound("0-7")));
  }

  @Test
  void ranksThatAreBoundToTheSameCoresShareThem() {
    assertEquals(1, together(bound("3"), bound("3")));
    assertEquals(2, together(bound("0-1"), bound("0-1"), bound("0-1")));
  }

  /** One limit may be for all: a container's, of which they are parts. */
  @Test
  void aLimitOnTheNumberCountsForAllRanks() {
    assertEquals(2, together(new AllowedCores(2, "0-63"), new AllowedCores(2, "0-63")));
    assertEquals(2, together(new AllowedCores(2, "0-63"), bound("0-63")));
    assertEquals(1, together(bound("5"), new AllowedCores(8, "5")));
  }

  @Test
  void whereTheListIsNotKnownTheNumberCounts() {
    assertEquals(4, together(new AllowedCores(4, ""), new AllowedCores(6, "")));
    assertEquals(4, together(new AllowedCores(4, ""), bound("0-7")));
  }

  @Test
  void listsAreThoseOfTheKernel() {
    BitSet expected = new BitSet();
    expected.set(0, 4);
    expected.set(8);
    expected.set(12, 14);
    assertEquals(expected, AllowedCores.parse("0-3,8,12-13\n"));
    assertEquals(new BitSet(), AllowedCores.parse(""));
  }

  /** It may come from another rank. */
  @ParameterizedTest
  @ValueSource(strings = {"a", "1-", "3-1", "-1", "0-70000", "1,,2", "9999999999"})
  void aTextThatIsNoListIsRefused(String text) {
    assertThrows(IllegalArgumentException.class, () -> new AllowedCores(1, text));
  }

  @Test
  void thisThreadHasSome() {
    AllowedCores own = AllowedCores.ofThisThread();
    assertTrue(own.most() > 0);
    assertTrue(own.cores().cardinality() >= own.most(), own.toString());
    assertEquals(List.of(own, own, own), AllowedCores.ofThisThread(3));
  }
}
