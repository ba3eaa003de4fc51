package org.nccl4j.it.doctor.bind;

/** Functions of libibverbs. */
public interface VerbsProbe {
  /** The devices; their number is written to the address given. */
  long ibv_get_device_list(long count);

  /** Frees what the other function gave. */
  void ibv_free_device_list(long list);
}
