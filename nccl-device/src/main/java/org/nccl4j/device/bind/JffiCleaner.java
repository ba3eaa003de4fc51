package org.nccl4j.device.bind;

import java.lang.ref.Cleaner;
import java.lang.reflect.Field;

/**
 * Takes the thread from jffi's Cleaner. That thread refers to each library and call signature, and
 * these to their class loader, which could never be unloaded. It frees nothing, since each cleanup
 * action also refers to the object whose end it waits for (jffi 1.4.3).
 */
final class JffiCleaner {
  private static final String NAME = "com.kenai.jffi.internal.Cleaner";

  private JffiCleaner() {}

  /** Has an effect before the first use of jffi alone. */
  static void withoutThread() {
    try {
      Field cleaner =
          Class.forName(NAME, /* initialize= */ true, JffiCleaner.class.getClassLoader())
              .getDeclaredField("cleaner");
      cleaner.setAccessible(true);
      cleaner.set(null, Cleaner.create(ignored -> new Thread("nccl4j-jffi")));
    } catch (ReflectiveOperationException | RuntimeException e) {
      // Of another version of jffi, which may have none: its classes stay loaded.
    }
  }
}
