package org.nccl4j.device;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** Names of log files. */
class DebugLogTest {
  @Test
  void hostAndProcessAreFilledIn() {
    String host = DebugLog.hostName();
    long pid = ProcessHandle.current().pid();
    assertEquals(Path.of("log." + host + "." + pid), DebugLog.expand("log.%h.%p"));
    assertEquals(Path.of("/a/" + pid + pid), DebugLog.expand("/a/%p%p"));
    assertEquals(Path.of("50%p"), DebugLog.expand("50%%p"));
    assertEquals(Path.of("%x%"), DebugLog.expand("%x%"));
  }
}
