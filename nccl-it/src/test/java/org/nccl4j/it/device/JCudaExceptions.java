package org.nccl4j.it.device;

import jcuda.driver.JCudaDriver;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Has JCuda throw for every status but success, where -Dnccl4j.test.jcudaExceptions=true asks for
 * it: its users set that switch, and no test of this library may notice.
 */
public final class JCudaExceptions implements BeforeAllCallback {
  @Override
  public void beforeAll(ExtensionContext context) {
    if (Boolean.getBoolean("nccl4j.test.jcudaExceptions")) {
      JCudaDriver.setExceptionsEnabled(true);
    }
  }
}
