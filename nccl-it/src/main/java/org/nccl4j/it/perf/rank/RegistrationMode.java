package org.nccl4j.it.perf.rank;

/** The registration of a rank's buffers; the numbers of perf's option -R. */
public enum RegistrationMode {
  /** They are not. */
  NOT,
  /** Registered by each rank for itself. */
  LOCALLY,
  /** Registered as windows of all ranks. */
  WINDOWS
}
