package org.nccl4j.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.ReductionOperator.Builder;
import org.nccl4j.device.ReductionOperator.Combiner;

/** Marks of users' functions: equal for equal functions, in any process. */
class FunctionMarkTest {
  private static final String SOURCE = "struct F { __device__ int operator()(int a, int b); };";

  private static Builder builder() {
    return ReductionOperator.function("f", DataType.INT32);
  }

  private static int host(Builder builder, Combiner function) {
    return builder.onHost(function).build().mark(Device.Kind.HOST);
  }

  private static int cuda(CudaFunctor functor) {
    return builder().onCuda(functor).build().mark(Device.Kind.CUDA);
  }

  /** A named class. */
  private static final class First implements Combiner {
    @Override
    public void combine(ByteBuffer a, ByteBuffer b, ByteBuffer target, int count, DataType type) {}
  }

  /** Another one. */
  private static final class Second implements Combiner {
    @Override
    public void combine(ByteBuffer a, ByteBuffer b, ByteBuffer target, int count, DataType type) {}
  }

  @Test
  void aDeviceWithoutTheFunctionHasNoMark() {
    ReductionOperator one = builder().onHost(new First()).build();
    assertEquals(0, one.mark(Device.Kind.CUDA));
    assertTrue(one.mark(Device.Kind.HOST) > 0);
    assertEquals(0, ReductionOperator.preMulSum(DataType.INT32, 2).mark(Device.Kind.HOST));
  }

  @Test
  void functionsInJavaAreToldApartByNameTypeAndClass() {
    int first = host(builder(), new First());
    assertEquals(first, host(builder(), new First()));
    Set<Integer> marks = new HashSet<>();
    marks.add(first);
    marks.add(host(builder(), new Second()));
    marks.add(host(builder().notCommutative(), new First()));
    marks.add(host(ReductionOperator.function("g", DataType.INT32), new First()));
    marks.add(host(ReductionOperator.function("f", DataType.UINT32), new First()));
    marks.add(host(ReductionOperator.functionOfStructs("f", 4), new First()));
    marks.add(host(ReductionOperator.functionOfStructs("f", 8), new First()));
    marks.add(ReductionOperator.of("f", new First()).mark(Device.Kind.HOST));
    assertEquals(8, marks.size());
  }

  /** Their own names depend on the order in which a process has made them. */
  @Test
  void lambdasAreToldApartByTheClassThatHasThem() {
    int one = host(builder(), (a, b, target, count, type) -> target.put(0, a.get(0)));
    assertEquals(one, host(builder(), (a, b, target, count, type) -> target.put(0, b.get(0))));
    assertNotEquals(one, host(builder(), Third.LAMBDA));
    assertEquals(host(builder(), Third.LAMBDA), host(builder(), Third.REFERENCE));
    assertNotEquals(one, host(builder(), new First()));
  }

  /** A class with lambdas. */
  private static final class Third {
    static final Combiner LAMBDA = (a, b, target, count, type) -> target.put(0, a.get(0));
    static final Combiner REFERENCE = new First()::combine;
  }

  @Test
  void proxiesAreToldApartByTheNameAlone() {
    int one = host(builder(), proxy());
    assertEquals(one, host(builder(), proxy()));
    assertNotEquals(one, host(ReductionOperator.function("g", DataType.INT32), proxy()));
    assertNotEquals(one, host(builder(), (a, b, target, count, type) -> {}));
  }

  private static Combiner proxy() {
    return (Combiner)
        Proxy.newProxyInstance(
            Combiner.class.getClassLoader(),
            new Class<?>[] {Combiner.class},
            (self, method, arguments) -> null);
  }

  /** Each mark is that of all processes. */
  @Test
  void marksDoNotChange() {
    assertEquals(0x8b8c, host(builder(), (a, b, target, count, type) -> {}));
    assertEquals(0x0902, cuda(CudaFunctor.ofSource("F", SOURCE)));
  }

  @Test
  void functorsAreToldApartByTheirCode() {
    CudaFunctor functor = CudaFunctor.ofSource("F", SOURCE);
    int mark = cuda(functor);
    Set<Integer> marks = new HashSet<>();
    marks.add(mark);
    marks.add(cuda(CudaFunctor.ofSource("F", SOURCE + " ")));
    marks.add(cuda(CudaFunctor.ofSource("G", SOURCE)));
    marks.add(cuda(functor.withCompilerOptions("-DX=1")));
    marks.add(cuda(functor.withCompilerOptions("-DX=", "1")));
    marks.add(cuda(CudaFunctor.ofImage("F", SOURCE.getBytes(StandardCharsets.UTF_8))));
    marks.add(cuda(CudaFunctor.ofImage("F", "other".getBytes(StandardCharsets.UTF_8))));
    assertEquals(7, marks.size());
    assertEquals(mark, cuda(functor.withCompilerOptions("-I/a", "--include-path=/b")));
  }

  /** GPUs of other kinds need other ones. */
  @Test
  void cubinsAreToldApartByTheirNames() {
    byte[] one = {0x7f, 'E', 'L', 'F', 1};
    byte[] other = {0x7f, 'E', 'L', 'F', 2};
    int mark = cuda(CudaFunctor.ofImage("F", one));
    assertEquals(mark, cuda(CudaFunctor.ofImage("F", other)));
    assertNotEquals(mark, cuda(CudaFunctor.ofImage("G", one)));
  }
}
