package org.nccl4j.device.cuda;

import jcuda.NativePointerObject;
import jcuda.Pointer;
import jcuda.driver.CUdeviceptr;

/** Between JCuda's handle objects and raw addresses. */
final class Handles {
  private Handles() {}

  /** A device address as JCuda wants it. */
  static CUdeviceptr device(long address) {
    return new DevicePointer(address);
  }

  /** A host address as JCuda wants it. */
  static Pointer host(long address) {
    return new HostPointer(address);
  }

  /** The raw value of any of JCuda's handles (streams, functions, contexts, events). */
  static long address(NativePointerObject handle) {
    return handle instanceof Pointer pointer
        ? new HostPointer(pointer).address()
        : new Handle(handle).address();
  }

  private static final class DevicePointer extends CUdeviceptr {
    DevicePointer(long address) {
      super(new CUdeviceptr(), address);
    }
  }

  private static final class HostPointer extends Pointer {
    HostPointer(long address) {
      super(address);
    }

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
