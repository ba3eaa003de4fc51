package org.nccl4j.it.spark;

/** The calls that the fake driver has recorded. Public for jnr-ffi's stubs. */
public interface FakeDriver {
  /** All calls so far, a line each. */
  String fakeRecord();
}
