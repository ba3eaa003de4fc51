package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.nccl4j.transport.net.ib.bind.FakeVerbsFunctions;

/** Tests over the libibverbs of fakeverbs.c, each on a machine without devices at first. */
abstract class WithFakeVerbs {
  /** The library, which is told what there is and what fails, and says what was called. */
  FakeVerbsFunctions fake;

  @BeforeEach
  final void noDevice() {
    fake = FakeVerbs.empty();
  }

  @AfterEach
  final void nothingIsLeft() {
    if (fake != null) { // null without the headers of libibverbs
      assertEquals(0, fake.fake_live(), "devices, domains, queues and registrations left");
    }
  }
}
