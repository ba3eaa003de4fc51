package org.nccl4j.device.support;

import java.security.AccessController;
import java.security.PrivilegedAction;

/**
 * Creates threads of this library that outlive the call that starts them. Such a thread keeps no
 * reference to the program whose thread starts it: not its context class loader, its inheritable
 * thread locals, or the protection domains of its classes. So a web application that shares this
 * library with others can be unloaded.
 */
public final class DaemonThread {
  private DaemonThread() {}

  /** Returns a daemon thread that has not been started. */
  @SuppressWarnings("removal") // later Java versions keep no protection domains, and need no action
  public static Thread of(Runnable body, String name) {
    return AccessController.doPrivileged(new Creation(body, name));
  }

  private record Creation(Runnable body, String name) implements PrivilegedAction<Thread> {
    @Override
    public Thread run() {
      Thread thread = new Thread(null, body, name, 0, /* inheritThreadLocals= */ false);
      thread.setContextClassLoader(DaemonThread.class.getClassLoader());
      thread.setDaemon(true);
      return thread;
    }
  }
}
