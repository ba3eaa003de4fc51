package org.nccl4j.device.cuda.stream;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/** Tells virtual threads from others, which Java can from version 21 on. */
final class VirtualThreads {
  /** Thread.isVirtual; null where there are none. */
  private static final MethodHandle IS_VIRTUAL = isVirtual();

  private VirtualThreads() {}

  private static MethodHandle isVirtual() {
    try {
      MethodType type = MethodType.methodType(boolean.class);
      return MethodHandles.lookup().findVirtual(Thread.class, "isVirtual", type);
    } catch (ReflectiveOperationException e) {
      return null;
    }
  }

  /** True if the caller is one. */
  static boolean isCurrent() {
    try {
      return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
    } catch (Throwable e) {
      throw new IllegalStateException("Thread.isVirtual throws nothing", e);
    }
  }
}
