package org.nccl4j.it.transport;

import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** SHM as it is when nothing is set: memfd. */
final class ShmContractTest extends ShmContract {
  @TestFactory
  Stream<DynamicTest> contract() {
    return checks().stream().map(check -> dynamicTest(check.name(), check::run));
  }
}
