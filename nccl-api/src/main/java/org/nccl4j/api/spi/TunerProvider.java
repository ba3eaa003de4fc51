package org.nccl4j.api.spi;

/**
 * Creates tuners; found by {@link java.util.ServiceLoader}. Stateless; any thread may call any
 * method. If there are several, the first by name is used, or the one that NCCL_TUNER_PLUGIN names.
 */
public interface TunerProvider {
  /**
   * Returns the tuner's name in logs and in NCCL_TUNER_PLUGIN: at most 32 letters, digits and
   * hyphens.
   */
  String name();

  /** Creates a tuner for one rank of one communicator. */
  Tuner open(TunerContext context);
}
