package org.nccl4j.device;

import java.security.AccessController;
import java.security.PrivilegedAction;

/**
 * Makes threads of this library that outlive the call that starts them. Such a thread keeps nothing
 * of the program whose thread starts it: neither its context class loader, nor its inheritable
 * thread locals, nor the protection domains of its classes. So a web application that shares this
 * library with others can be unloaded.
 */
public final class DaemonThread {
  private DaemonThread() {}

  /** A daemon thread that has not begun. */
  @SuppressWarnings("removal") // later Java versions keep no protection domains, and need no action
  public static Thread of(Runnable body, String name) {
    return AccessController.doPrivileged((PrivilegedAction<Thread>) () -> make(body, name));
  }

  private static Thread make(Runnable body, String name) {
    Thread thread = new Thread(null, body, name, 0, /* inheritThreadLocals= */ false);
    thread.setContextClassLoader(DaemonThread.class.getClassLoader());
    thread.setDaemon(true);
    return thread;
  }
}
