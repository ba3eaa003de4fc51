package org.nccl4j.it.api;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.CommunicatorConfig.CtaPolicy;
import org.nccl4j.api.CommunicatorConfig.Determinism;
import org.nccl4j.api.DeviceCommunicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.NvlsMode;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.Registration;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Operation;

/** The public methods of classes, and an argument that is right for each of their parameters. */
final class PublicCalls {
  private final Map<Class<?>, Object> values = new HashMap<>();

  /**
   * For calls of one rank of two or more.
   *
   * @param number for what takes one, such as a root
   */
  PublicCalls(int number, DeviceMemory memory, DeviceStream stream) {
    put(DeviceMemory.class, memory);
    put(DeviceStream.class, stream);
    put(DeviceStream[].class, new DeviceStream[] {stream});
    put(Device.class, Devices.host());
    put(DataType.class, DataType.FLOAT32);
    put(RedOp.class, RedOp.SUM);
    put(ReductionOperator.class, ReductionOperator.preMulSum(DataType.FLOAT32, 2));
    put(ReductionOperator.Combiner.class, (ReductionOperator.Combiner) (a, b, to, n, type) -> {});
    put(CommunicatorConfig.class, CommunicatorConfig.defaults());
    put(RaggedConfig.class, new RaggedConfig(4, 1, 2, DataType.INT32));
    put(Window.Mode.class, Window.Mode.SYMMETRIC);
    put(
        DeviceCommunicator.Requirements.class,
        DeviceCommunicator.Requirements.defaults().withBarriers(1));
    put(ExpertConfig.class, new ExpertConfig(1, 8, 1, 2, DataType.FLOAT32, false));
    put(CallOptions.class, CallOptions.defaults());
    put(UniqueId.class, UniqueId.create());
    put(Communicator.ShrinkMode.class, Communicator.ShrinkMode.WAIT);
    put(NvlsMode.class, NvlsMode.AUTO);
    put(Determinism.class, Determinism.RUN_TO_RUN);
    put(CtaPolicy.class, CtaPolicy.DEFAULT);
    put(long[].class, new long[] {1, 1});
    put(byte[].class, new byte[] {1});
    put(Set.class, Set.of(1));
    put(Map.class, Map.of(1, 1));
    put(Runnable.class, (Runnable) () -> {});
    put(Duration.class, Duration.ofSeconds(1));
    put(ByteBuffer.class, ByteBuffer.allocateDirect(8));
    put(Operation.class, Operation.ALL_REDUCE);
    put(String.class, "name");
    put(int.class, number);
    put(long.class, 1L);
    put(double.class, 1.0);
    put(byte.class, (byte) 1);
    put(boolean.class, true);
  }

  private void put(Class<?> type, Object value) {
    values.put(type, value);
  }

  void put(DeviceEvent event) {
    put(DeviceEvent.class, event);
  }

  void put(Communicator communicator, Window window, Registration registration) {
    put(Communicator.class, communicator);
    put(Window.class, window);
    put(Registration.class, registration);
  }

  void put(DeviceCommunicator.Put put, DeviceCommunicator.Get get) {
    put(DeviceCommunicator.Put.class, put);
    put(DeviceCommunicator.Get.class, get);
  }

  /** A method; the arguments are right for it. */
  record Call(Method method, Object target, Object[] arguments) {
    /** The same with null as one of the arguments. */
    Call without(int argument) {
      Object[] changed = arguments.clone();
      changed[argument] = null;
      return new Call(method, target, changed);
    }

    /** Waits for what comes later; throws what it throws. */
    Object run() throws Throwable {
      try {
        Object result = method.invoke(target, arguments);
        return result instanceof CompletableFuture<?> future ? future.join() : result;
      } catch (InvocationTargetException | CompletionException e) {
        throw e.getCause();
      }
    }

    /** As it is written, but for the arguments that are given. */
    @Override
    public String toString() {
      return Stream.of(arguments)
          .map(a -> a == null ? "null" : a.getClass().getSimpleName())
          .collect(Collectors.joining(", ", method.getName() + "(", ")"));
    }
  }

  /** All public methods that a class has or inherits, static ones too; not those of Object. */
  List<Call> of(Class<?> type, Object target) {
    return Stream.of(type.getMethods())
        .filter(method -> method.getDeclaringClass() != Object.class)
        .filter(method -> !method.getName().equals("equals") && !method.isSynthetic())
        .filter(method -> target != null || Modifier.isStatic(method.getModifiers()))
        .sorted(Comparator.comparing(Method::toString))
        .map(method -> new Call(method, target, arguments(method)))
        .toList();
  }

  private Object[] arguments(Method method) {
    boolean makes = method.getName().startsWith("init") || method.getName().startsWith("grow");
    Class<?>[] types = method.getParameterTypes();
    Object[] arguments = Arrays.stream(types).map(t -> value(t, method)).toArray();
    if (makes && arguments[0] instanceof Integer) {
      arguments[0] = 3; // ranks
    }
    return arguments;
  }

  private Object value(Class<?> type, Method method) {
    if (type == List.class) {
      return method.getName().startsWith("initAll")
          ? List.of(values.get(Device.class))
          : method.getName().startsWith("initRank")
              ? List.of(values.get(UniqueId.class))
              : List.of("SHM");
    }
    Object value = values.get(type);
    if (value == null) {
      throw new AssertionError(method + ": no " + type + " to try it with");
    }
    return value;
  }
}
