package org.nccl4j.transport.net.ib;

import org.junit.jupiter.api.BeforeEach;

/** Tests with one good RoCE device, roce0. */
abstract class WithRoce extends WithFakeVerbs {
  @BeforeEach
  final void oneDevice() {
    FakeVerbs.addRoce(fake, "roce0", 5);
  }
}
