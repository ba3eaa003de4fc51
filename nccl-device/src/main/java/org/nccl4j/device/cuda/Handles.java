package org.nccl4j.device.cuda;

import jcuda.NativePointerObject;
import jcuda.Pointer;
import jcuda.driver.CUstream;

/**
 * The addresses behind JCuda's handle objects, which are all that this library takes of JCuda. No
 * other class loads one of JCuda's, so that programs need JCuda only if they use it themselves.
 */
final class Handles {
  private Handles() {}

  static long pointer(Pointer pointer) {
    return new HostPointer(pointer).address();
  }

  static long stream(CUstream stream) {
    return new Handle(stream).address();
  }

  private static final class HostPointer extends Pointer {
    HostPointer(Pointer other) {
      super(other);
    }

    long address() {
      return getNativePointer() + getByteOffset();
    }
  }

  private static final class Handle extends NativePointerObject {
    Handle(NativePointerObject other) {
      super(other);
    }

    long address() {
      return getNativePointer();
    }
  }
}
