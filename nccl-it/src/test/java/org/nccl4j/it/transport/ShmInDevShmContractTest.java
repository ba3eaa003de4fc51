package org.nccl4j.it.transport;

import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** SHM with its memory in /dev/shm. */
final class ShmInDevShmContractTest extends ShmContract {
  @Override
  protected Map<String, String> settings() {
    return Map.of("NCCL4J_SHM", "devshm");
  }

  @TestFactory
  Stream<DynamicTest> contract() {
    return checks().stream().map(check -> dynamicTest(check.name(), check::run));
  }
}
