package org.nccl4j.it.cli;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.DoubleUnaryOperator;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import java.util.function.ToIntFunction;
import java.util.function.ToLongFunction;

/** A program of lambda expressions and records of all kinds; prints what they give. */
public final class DynamicSample {
  private final List<String> lines = new ArrayList<>();
  private final int own = 7;

  private DynamicSample() {}

  record Empty() {}

  record Pair<A, B>(A first, B second) {}

  record Numbers(
      boolean flag, byte b, char c, short s, int i, long l, float f, double d, int[] array) {
    static Numbers of(float f, double d) {
      return new Numbers(true, (byte) -1, 'x', (short) 300, 1 << 20, 1L << 40, f, d, null);
    }
  }

  /** Its own toString stays. */
  record Named(String name) {
    @Override
    public String toString() {
      return "named " + name;
    }
  }

  private interface Scaled {
    private long scale(long by) {
      return 3 * by;
    }

    static Supplier<Long> three() {
      return () -> 3L;
    }

    default ToLongFunction<Long> scaling() {
      return this::scale;
    }
  }

  private interface Marked {}

  public static void main(String[] arguments) {
    new DynamicSample().run();
  }

  private void run() {
    lambdas(1, 2L, 3.5, "four");
    references();
    records();
    lines.forEach(System.out::println);
  }

  private void lambdas(int i, long l, double d, String text) {
    Supplier<String> captured = () -> text + i + l + d + own;
    print(captured.get());
    DoubleUnaryOperator twice = x -> 2 * x + d;
    print(twice.applyAsDouble(4));
    IntPredicate even = n -> n % 2 == 0;
    print(even.test(3) + " " + even.negate().test(3));
    BiFunction<Integer, Long, Double> sum = (a, b) -> a + b + d;
    print(sum.apply(1, 2L));
    Runnable nested = () -> List.of(1, 2).forEach(each -> print(each + i));
    nested.run();
    Supplier<Runnable> inner =
        () ->
            new Runnable() {
              @Override
              public void run() {
                LongSupplier more = () -> l + own;
                print(more.getAsLong());
              }
            };
    inner.get().run();
    Supplier<String> both = (Supplier<String> & Marked) () -> "marked";
    print(both.get() + (both instanceof Marked));
    Supplier<String> kept = (Supplier<String> & Serializable) () -> "kept";
    print(kept.get());
  }

  private void references() {
    Function<Integer, Integer> absolute = Math::abs;
    print(absolute.apply(-4));
    ToIntFunction<Integer> unboxed = Integer::intValue;
    print(unboxed.applyAsInt(5));
    ToLongFunction<Integer> widened = Integer::intValue;
    print(widened.applyAsLong(6));
    ToDoubleFunction<Long> asDouble = Long::doubleValue;
    print(asDouble.applyAsDouble(7L));
    IntFunction<Integer> boxed = Integer::valueOf;
    print(boxed.apply(8));
    IntFunction<long[]> arrays = long[]::new;
    print(arrays.apply(9).length);
    Function<String, StringBuilder> made = StringBuilder::new;
    print(made.apply("ten").reverse());
    BiFunction<String, String, Pair<String, String>> pairs = Pair::new;
    print(pairs.apply("a", "b"));
    Consumer<String> discards = lines::add;
    discards.accept("eleven");
    Consumer<Integer> discardsLong = DynamicSample::asLong;
    discardsLong.accept(12);
    Comparator<Map.Entry<String, Integer>> byValue = Comparator.comparing(Map.Entry::getValue);
    print(byValue.compare(Map.entry("a", 2), Map.entry("b", 1)));
    print(new Scaled() {}.scaling().applyAsLong(13L) + Scaled.three().get());
    ToLongFunction<Pair<Long, Long>> generic = Pair::first;
    print(generic.applyAsLong(new Pair<>(14L, 15L)));
    Supplier<String> bound = "text"::toUpperCase;
    print(bound.get());
    Supplier<Object> same = Object::new;
    Object first = same.get();
    print(first.equals(same.get()));
  }

  private static long asLong(int n) {
    return n;
  }

  private void records() {
    print(new Empty() + " " + new Empty().hashCode() + new Empty().equals(new Empty()));
    print(new Pair<>(null, List.of(1)) + " " + new Pair<>("a", null).hashCode());
    print(new Pair<>("a", 1).equals(new Pair<>("a", 1)));
    print(new Pair<>("a", 1).equals(new Pair<>("a", 2)));
    for (Object other : Arrays.asList("a", null)) {
      print(new Pair<>("a", 1).equals(other));
    }
    Numbers numbers = Numbers.of(1.5f, 2.5);
    print(numbers + " " + numbers.hashCode() + " " + numbers.equals(Numbers.of(1.5f, 2.5)));
    print(Numbers.of(Float.NaN, Double.NaN).equals(Numbers.of(Float.NaN, Double.NaN)));
    print(Numbers.of(0, 0.0).equals(Numbers.of(0, -0.0)));
    print(Numbers.of(0f, 0).equals(Numbers.of(-0f, 0)));
    int[] array = {1};
    print(new Pair<>(array, 1).equals(new Pair<>(array, 1)));
    print(new Pair<>(array, 1).equals(new Pair<>(array.clone(), 1)));
    print(new Named("x") + " " + new Named("x").equals(new Named("x")));
    record Local(long value) {}
    print(new Local(1L << 33) + " " + new Local(1L << 33).hashCode());
  }

  private void print(Object line) {
    lines.add(String.valueOf(line));
  }
}
