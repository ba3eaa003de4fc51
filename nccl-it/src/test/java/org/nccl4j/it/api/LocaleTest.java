package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.DataType;
import org.nccl4j.operation.Operation;

/** Users whose language writes numbers in another way. */
@Timeout(600)
class LocaleTest {
  @Test
  void explanationsHaveDecimalPoints() throws Exception {
    Locale before = Locale.getDefault();
    Locale.setDefault(Locale.GERMANY);
    try (Ranks ranks = new Ranks(2)) {
      assertEquals("0,5", "%.1f".formatted(0.5));
      Communicator comm = ranks.communicators.get(0);
      Communicator quantised =
          comm.withOptions(CallOptions.defaults().withQuantisation(DataType.INT8, 32));
      String text = quantised.explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32);
      assertFalse(text.matches("(?s).*\\d,\\d.*"), text);
    } finally {
      Locale.setDefault(before);
    }
  }
}
