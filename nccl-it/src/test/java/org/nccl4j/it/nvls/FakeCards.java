package org.nccl4j.it.nvls;

import jnr.ffi.LibraryLoader;

/** The entries of fakeverbs.c that are for tests. Public for jnr-ffi's stubs. */
public interface FakeCards {
  /** EOPNOTSUPP. */
  int NOT_SUPPORTED = 95;

  /** That which the network loads too. */
  static FakeCards load() {
    return LibraryLoader.create(FakeCards.class)
        .failImmediately()
        .load(System.getenv("NCCL_IBVERBS_LIB"));
  }

  /** All calls, a line each. */
  String fake_calls();

  /** Everything that was made and not destroyed. */
  int fake_live();

  /** A call fails after so many successes. */
  void fake_fail(String call, int error, int after);

  /** How many calls begin with some words. */
  default long calls(String words) {
    return fake_calls().lines().filter(line -> line.startsWith(words)).count();
  }
}
