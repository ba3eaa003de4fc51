package org.nccl4j.device.cuda.copy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.cuda.plan.LayoutTest;
import org.nccl4j.device.cuda.window.DirectLayout;

/** The words of launches beside copy engines, against the kernels' header. */
class BesideWordsTest {
  private static String number(String expression) throws Exception {
    return LayoutTest.run("direct_layout.h", "printf(\"%%d\", (int)%s);".formatted(expression));
  }

  @Test
  void wordsAreTheHeaders() throws Exception {
    Field[] words = BesideWords.class.getDeclaredFields();
    assertEquals(7, words.length);
    for (Field word : words) {
      word.setAccessible(true);
      boolean limit = word.getName().equals("COPIES");
      String name = (limit ? "NCCL4J_BESIDE_" : "BESIDE_") + word.getName();
      assertEquals(Integer.toString(word.getInt(null)), number(name), name);
    }
  }

  @Test
  void theyHaveRoom() throws Exception {
    DirectLayout layout = DirectLayout.of(2);
    assertTrue(layout.counts() - layout.engine() >= BesideWords.BYTES, layout.toString());
    assertTrue(CopyEngineOverlapPlan.MOVERS <= Integer.parseInt(number("NCCL4J_BESIDE_MOVERS")));
  }
}
