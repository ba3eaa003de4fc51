package org.nccl4j.api.registry;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;

/**
 * Calls a plug-in of another project; if it throws or returns an invalid result, the error names
 * the plug-in instead of nccl4j. Objects that create connections are called by reflection; those
 * that move data have guards without it.
 *
 * @param origin the plug-in, for messages
 * @param plugin the called object: the provider or one that it created
 * @param layout of its connections; null if it creates none
 */
record GuardedPlugin(Origin origin, Object plugin, ConnectionLayout layout)
    implements InvocationHandler {
  /** Ours are not guarded: their unexpected exceptions are defects of nccl4j. */
  private static final String OURS = "org.nccl4j.transport.";

  /** Types of objects that a guarded plug-in makes and that are guarded too. */
  private static final List<Class<?>> PARTS =
      List.of(Transport.class, Connector.class, Net.class, NetListener.class);

  /**
   * A plug-in, for messages.
   *
   * @param what kind of plug-in it is
   * @param remedy how to do without it
   * @param name as its provider says it
   * @param type the provider's class
   */
  record Origin(String what, String remedy, Supplier<String> name, String type) {
    String who() {
      String own;
      try {
        own = name.get();
      } catch (RuntimeException | LinkageError e) {
        own = null; // the class's name has to do: it is this that fails, perhaps
      }
      return own == null ? what + " " + type : "%s %s (%s)".formatted(what, own, type);
    }
  }

  /**
   * A provider that may be called, whatever it does.
   *
   * @param what kind of plug-in it is
   * @param remedy how to do without it
   * @param name says its name
   */
  static <P> P of(Class<P> type, String what, String remedy, Function<P, String> name, P provider) {
    String own = provider.getClass().getName();
    if (own.startsWith(OURS)) {
      return provider;
    }
    Origin origin = new Origin(what, remedy, () -> name.apply(provider), own);
    return type.cast(new GuardedPlugin(origin, provider, null).as(type));
  }

  /** The class of a provider, guarded or not. */
  static String className(Object provider) {
    return Proxy.isProxyClass(provider.getClass())
            && Proxy.getInvocationHandler(provider) instanceof GuardedPlugin guarded
        ? guarded.plugin.getClass().getName()
        : provider.getClass().getName();
  }

  private Object as(Class<?> type) {
    return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, this);
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (method.getDeclaringClass() == Object.class) {
      return ofObject(method, arguments);
    }
    Object answer;
    try {
      answer = method.invoke(plugin, arguments);
    } catch (InvocationTargetException e) {
      throw blamed(method, e.getCause());
    }
    if (answer == null && method.getReturnType() != void.class && !mayBeNull(method)) {
      throw wrong(method, "returns null from", null);
    }
    check(method, answer);
    if (answer instanceof NetSender sender && method.getReturnType() == NetSender.class) {
      return new GuardedConnection.Sender(this, sender);
    }
    if (answer instanceof NetReceiver receiver && method.getReturnType() == NetReceiver.class) {
      return new GuardedConnection.Receiver(this, receiver);
    }
    if (method.getDeclaringClass() == Connector.class && method.getName().equals("proxy")) {
      return ((Optional<?>) answer).map(work -> new GuardedHandler(this, (ProxyHandler) work));
    }
    for (Class<?> part : PARTS) {
      if (part.isInstance(answer) && method.getReturnType() == part) {
        return new GuardedPlugin(origin, answer, layout(arguments)).as(part);
      }
    }
    return answer;
  }

  /** Two guards of one plug-in are equal. */
  private Object ofObject(Method method, Object[] arguments) throws Throwable {
    if (method.getName().equals("equals")) {
      return Proxy.isProxyClass(arguments[0].getClass())
          && Proxy.getInvocationHandler(arguments[0]) instanceof GuardedPlugin other
          && plugin == other.plugin;
    }
    try {
      return method.invoke(plugin, arguments);
    } catch (InvocationTargetException e) {
      throw blamed(method, e.getCause());
    }
  }

  private static boolean mayBeNull(Method method) {
    return method.getDeclaringClass() == NetListener.class && method.getName().equals("accept");
  }

  private void check(Method method, Object answer) {
    if (answer instanceof byte[] handle
        && method.getDeclaringClass() == Connector.class
        && handle.length > Connector.HANDLE_BYTES) {
      String what = "returns %d bytes, more than %d, from";
      throw wrong(method, what.formatted(handle.length, Connector.HANDLE_BYTES), null);
    }
    if (answer instanceof Connection connection && layout != null) {
      checkMemory(method, "data side", connection.data(), layout.dataBytes());
      checkMemory(method, "credit side", connection.credit(), ConnectionLayout.CREDIT_BYTES);
    }
  }

  private void checkMemory(Method method, String side, DeviceMemory memory, long bytes) {
    if (memory == null || memory.size() < bytes) {
      String has = memory == null ? "no memory" : memory.size() + " bytes";
      throw wrong(
          method, "gives the %s %s instead of %d bytes, in".formatted(side, has, bytes), null);
    }
  }

  private ConnectionLayout layout(Object[] arguments) {
    return arguments != null && arguments.length == 1 && arguments[0] instanceof TransportContext to
        ? to.layout()
        : layout;
  }

  private Throwable blamed(Method method, Throwable thrown) {
    return thrown instanceof NcclException || thrown instanceof VirtualMachineError
        ? thrown
        : wrong(method, "fails with %s in".formatted(thrown), thrown);
  }

  /**
   * The error of a plug-in that throws.
   *
   * @param call that fails
   */
  RuntimeException blamed(String call, Throwable thrown) {
    if (thrown instanceof VirtualMachineError error) {
      throw error;
    }
    return thrown instanceof NcclException known
        ? known
        : wrong(call, "fails with %s in".formatted(thrown), thrown);
  }

  /** An answer that may not be null. */
  <T> T answered(String call, T answer) {
    if (answer == null) {
      throw wrong(call, "returns null from", null);
    }
    return answer;
  }

  private NcclException wrong(Method method, String what, Throwable cause) {
    return wrong(method.getName(), what, cause);
  }

  private NcclException wrong(String call, String what, Throwable cause) {
    return new InvalidUsageException(
        ErrorId.PLUGIN, "the %s %s %s".formatted(origin.who(), what, call), origin.remedy, cause);
  }
}
