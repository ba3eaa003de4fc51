package org.nccl4j.device.cuda.driver;

import java.io.InputStream;

/**
 * Opens files of the artifact nccl-kernels, which has the CUDA kernels and the only provider of
 * this service. Found by {@link java.util.ServiceLoader}, so that a program of modules that
 * requires none of kernels has them too.
 */
public interface KernelImages {
  /**
   * Opens a file.
   *
   * @param path of a resource of the provider's module, from its root
   * @return null if there is none
   */
  InputStream open(String path);
}
