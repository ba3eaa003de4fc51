package org.nccl4j.device.cuda;

import jcuda.NativePointerObject;
import jcuda.Pointer;

/** The addresses behind JCuda's handle objects, which are all that this library takes of JCuda. */
final class Handles {
  private Handles() {}

  /** The raw value of any of JCuda's handles (streams, pointers). */
  static long address(NativePointerObject handle) {
    return handle instanceof Pointer pointer
        ? new HostPointer(pointer).address()
        : new Handle(handle).address();
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
