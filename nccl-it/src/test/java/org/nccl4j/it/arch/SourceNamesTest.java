package org.nccl4j.it.arch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import org.junit.jupiter.api.Test;

class SourceNamesTest {
  @Test
  void namesInCodeCountAndThoseInCommentsAndTextDoNot() {
    String source =
        """
        package org.x;

        import static org.y.Sizes.LINE;

        import org.y.Shape;
        import org.y.Nest.Egg;

        /** Better than {@link Commented}. */
        sealed interface Form permits Round {
          int BYTES = LINE * Own.COUNT; // as in Remark
          String TEXT = "of Quoted" + '"' + " Quoted";
          org.z.Far far(Shape shape, Shape.Inner part, Egg egg);
        }
        """;
    assertEquals(
        Set.of(
            "org.x.Form",
            "org.x.Round",
            "org.x.Own",
            "org.x.String",
            "org.y.Sizes",
            "org.y.Shape",
            "org.y.Nest",
            "org.x.Egg",
            "org.z.Far"),
        withoutConstants(source));
  }

  private static Set<String> withoutConstants(String source) {
    Set<String> names = SourceNames.in(source);
    names.removeIf(name -> name.matches(".*\\.[A-Z]+"));
    return names;
  }

  @Test
  void aTypesFileIsFound() {
    Set<String> names = new SourceNames().of("org.nccl4j.api.Communicator");
    assertTrue(names.contains("org.nccl4j.device.Device"), names::toString);
    assertThrows(IllegalStateException.class, () -> new SourceNames().of("org.nccl4j.None"));
  }
}
