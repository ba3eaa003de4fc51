package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.text.MessageFormat;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

class AlgorithmSelectorTest {
  /** Keeps the lines of the log that contain a text. */
  private static final class Lines extends Handler {
    private final List<String> lines = new CopyOnWriteArrayList<>();
    private final String wanted;

    Lines(String wanted) {
      this.wanted = wanted;
    }

    @Override
    public void publish(LogRecord line) {
      String text = MessageFormat.format(line.getMessage(), line.getParameters());
      if (text.contains(wanted)) {
        lines.add(text);
      }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }

  /**
   * One setting covers operations that lack its algorithm, in each communicator again. A question
   * for a choice, as of the first communicator here, logs nothing.
   */
  @Test
  void eachOperationThatSettingsExcludeIsToldOnceInAProcess() {
    // A value that no other test has.
    AlgorithmFilter filter = AlgorithmFilter.parse("Tree,Hierarchical", "^LL128");
    Logger logger = Logger.getLogger("org.nccl4j.TUNING");
    Lines lines = new Lines("NCCL_ALGO=Tree,Hierarchical and NCCL_PROTO=^LL128");
    logger.addHandler(lines);
    try {
      for (int communicator = 0; communicator < 3; communicator++) {
        AlgorithmSelector selector =
            new AlgorithmSelector(
                new CommunicatorProfile(4, Device.Kind.HOST, "host", false, false).costs(), filter);
        for (long bytes = 1 << 10; bytes <= 1 << 26; bytes <<= 8) {
          for (Operation operation : List.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER)) {
            AlgorithmChoice choice = selector.choose(operation, bytes, DataType.INT8, RedOp.SUM);
            if (communicator > 0) {
              selector.tellIfExcluded(operation, choice);
            }
          }
        }
        assertEquals(communicator == 0 ? 0 : 2, lines.lines.size(), lines.lines.toString());
      }
    } finally {
      logger.removeHandler(lines);
    }
  }
}
