package org.nccl4j.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;

class NcclExceptionTest {
  @Test
  void anErrorThatIsThrownAgainIsPrintedOnce() {
    String here = Thread.currentThread().getName();
    NcclException first =
        new InternalErrorException("it broke", "mend it", new IllegalStateException("deep down"));
    first.addSuppressed(new IllegalStateException("and this"));
    NcclException again = first.again().again();
    assertNotSame(first, again);
    assertEquals(first.getMessage(), again.getMessage());
    StringWriter text = new StringWriter();
    again.printStackTrace(new PrintWriter(text));
    String printed = text.toString();
    assertEquals(printed.indexOf("it broke"), printed.lastIndexOf("it broke"), printed);
    assertTrue(
        printed.contains("Caused by: this error where it first arose (thread " + here + ")"),
        printed);
    assertTrue(printed.contains("Caused by: java.lang.IllegalStateException: deep down"), printed);
    assertTrue(printed.contains("Suppressed: java.lang.IllegalStateException: and this"), printed);
    assertEquals(first.getStackTrace()[0], again.getCause().getStackTrace()[0]);
  }
}
