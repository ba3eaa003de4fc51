package org.nccl4j.api.registry;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.ServiceLoader;
import java.util.Set;

/**
 * The providers of a service that this library's class loader finds, then those that the calling
 * thread's context class loader finds beside them: of plug-ins in a web application, say, that
 * shares the library with others. A context class loader with its own nccl4j is not used.
 *
 * <p>Its next and hasNext throw {@link java.util.ServiceConfigurationError} for a provider that
 * cannot be loaded, and continue after it.
 */
final class Providers<P> implements Iterator<P> {
  private final List<Iterator<P>> left = new ArrayList<>();
  private final Set<Class<?>> seen = new HashSet<>();
  private P next;

  private Providers(Class<P> type) {
    ClassLoader own = Providers.class.getClassLoader();
    ClassLoader context = Thread.currentThread().getContextClassLoader();
    left.add(ServiceLoader.load(type, own).iterator());
    if (context != null && context != own && sees(context, type)) {
      left.add(ServiceLoader.load(type, context).iterator());
    }
  }

  static <P> Iterator<P> of(Class<P> type) {
    return new Providers<>(type);
  }

  private static boolean sees(ClassLoader loader, Class<?> type) {
    try {
      return Class.forName(type.getName(), /* initialize= */ false, loader) == type;
    } catch (ClassNotFoundException | LinkageError e) {
      return false;
    }
  }

  @Override
  public boolean hasNext() {
    while (next == null && !left.isEmpty()) {
      if (!left.get(0).hasNext()) {
        left.remove(0);
      } else {
        P found = left.get(0).next();
        next = seen.add(found.getClass()) ? found : null;
      }
    }
    return next != null;
  }

  @Override
  public P next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    P found = next;
    next = null;
    return found;
  }
}
