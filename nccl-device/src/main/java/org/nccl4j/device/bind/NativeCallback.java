package org.nccl4j.device.bind;

/**
 * A function of Java that native code calls with five words or fewer; see {@link NativeFunction}.
 */
@FunctionalInterface
public interface NativeCallback {
  /** Called by native code, in any of its threads. Must throw nothing. */
  int call(long a, long b, long c, long d, long e);
}
