package org.nccl4j.api.window;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.symmetric.WindowView;

/** Ranks release windows in different orders, with less room than there are windows. */
class ReleasedWindowsTest {
  private static final int MOST = 2;

  private static ReleasedWindows with(long... numbers) {
    ReleasedWindows made = new ReleasedWindows(MOST);
    for (long number : numbers) {
      made.add(new RegisteredWindow(new WindowView(number, 0, List.of()), null, 0, null, true));
    }
    return made;
  }

  private static RegistrationMessage says(ReleasedWindows rank) {
    return new RegistrationMessage(
        RegistrationMessage.Step.REGISTER,
        null,
        0,
        0,
        0,
        0,
        0,
        0,
        "",
        true,
        List.of(),
        false,
        rank.numbers(),
        List.of());
  }

  /** Both release windows in some rounds, and must agree after each. */
  private static List<Long> rounds(int rounds, ReleasedWindows first, ReleasedWindows second) {
    List<Long> done = new ArrayList<>();
    for (int round = 0; round < rounds; round++) {
      List<RegistrationMessage> all = List.of(says(first), says(second));
      List<Long> ofFirst = numbers(first.byAll(all));
      assertEquals(ofFirst, numbers(second.byAll(all)));
      done.addAll(ofFirst);
    }
    return done;
  }

  private static List<Long> numbers(List<RegisteredWindow> windows) {
    return windows.stream().map(RegisteredWindow::number).toList();
  }

  @Test
  void whatAllHaveGivenUpIsFoundBehindWhatOneHas() {
    assertEquals(List.of(3L, 4L), rounds(2, with(1, 2, 3, 4), with(4, 3)));
  }

  @Test
  void ordersOfGivingUpDoNotMatter() {
    assertEquals(
        List.of(-1L, 0L, 1L, 2L, 3L, 4L, 5L, 6L),
        rounds(4, with(1, 2, 3, 4, 5, 6, 0, -1), with(6, 5, 4, 3, 2, 1, -1, 0)));
  }

  /** After the last number comes the first: one that was passed is found the next time. */
  @Test
  void whatIsGivenUpLaterIsFoundToo() {
    ReleasedWindows first = with(1, 2, 3, 4);
    ReleasedWindows second = with(3, 4);
    assertEquals(List.of(3L, 4L), rounds(3, first, second));
    second.add(new RegisteredWindow(new WindowView(1, 0, List.of()), null, 0, null, true));
    assertEquals(List.of(1L), rounds(2, first, second));
  }
}
