package org.nccl4j.device.host.kernel.protocol;

/** Another rank whose data are awaited. */
public interface Sender {
  /** Returns the sender's rank. */
  int peer();

  /**
   * True if what is awaited was sent, but not where this rank's call looks for it: the peer is in
   * another call, unless the data came meanwhile, so that they are to be looked for once more
   * afterwards. For waits that have lasted a while.
   */
  boolean sentAnother(Call call);
}
