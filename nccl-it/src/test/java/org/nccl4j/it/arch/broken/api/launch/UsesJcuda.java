package org.nccl4j.it.arch.broken.api.launch;

/** Native types in the engine. */
public class UsesJcuda {
  public jcuda.Pointer pointer;
  public jnr.ffi.Pointer other;
}
