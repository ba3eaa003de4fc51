package org.nccl4j.device.numeric;

/** A floating-point type of 8 bits. */
public interface ByteFormat extends FloatFormat {
  /** Rounds floats to the nearest numbers, ties to even. */
  void narrow(float[] from, byte[] to, int count);
}
