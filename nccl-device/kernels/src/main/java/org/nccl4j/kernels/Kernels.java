package org.nccl4j.kernels;

import java.io.InputStream;
import org.nccl4j.device.cuda.driver.KernelImages;

/** The CUDA kernels of this module. Stateless; any thread may call. */
@SuppressWarnings("exports") // the service, to this library alone
public final class Kernels implements KernelImages {
  /** Called by {@link java.util.ServiceLoader}. */
  public Kernels() {}

  @Override
  public InputStream open(String path) {
    return Kernels.class.getResourceAsStream("/" + path);
  }
}
