package org.nccl4j.opentelemetry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.spi.Profiler;
import org.nccl4j.api.spi.Profiler.Operation;
import org.nccl4j.api.spi.ProfilerProvider;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.testkit.ProfilerContract;

class OpenTelemetryProfilingTest {
  private final InMemorySpanExporter spans = InMemorySpanExporter.create();

  private void set(Sampler sampler) {
    OpenTelemetrySdk.builder()
        .setTracerProvider(
            SdkTracerProvider.builder()
                .setSampler(sampler)
                .addSpanProcessor(SimpleSpanProcessor.create(spans))
                .build())
        .buildAndRegisterGlobal();
  }

  @AfterEach
  void unset() {
    GlobalOpenTelemetry.resetForTest();
  }

  private static Operation operation(long number) {
    return new Operation(number, "all_reduce", 16, 64, 0);
  }

  private static Profiler profiler() {
    return new OpenTelemetryProfiling().open("job", 1, 2).orElseThrow();
  }

  @TestFactory
  Stream<DynamicTest> keepsTheContractOfProfilers() {
    set(Sampler.alwaysOn());
    ProfilerContract contract =
        new ProfilerContract() {
          @Override
          protected ProfilerProvider provider() {
            return new OpenTelemetryProfiling();
          }
        };
    return contract.checks().stream()
        .map(check -> DynamicTest.dynamicTest(check.name(), check::run));
  }

  @Test
  void anAllReduceIsASpanOfEachRankUnderTheCallersSpan() {
    set(Sampler.alwaysOn());
    Span step = GlobalOpenTelemetry.getTracer("test").spanBuilder("step").startSpan();
    List<Communicator> ranks = Communicator.initAll(List.of(Devices.host(), Devices.host()));
    List<DeviceMemory> data = ranks.stream().map(r -> r.device().allocate(64)).toList();
    List<DeviceStream> streams = ranks.stream().map(r -> r.device().createStream()).toList();
    Scope scope = step.makeCurrent();
    try {
      Group.run(
          () -> {
            for (int r = 0; r < 2; r++) {
              DeviceMemory own = data.get(r);
              ranks.get(r).allReduce(own, own, 16, DataType.FLOAT32, RedOp.SUM, streams.get(r));
            }
          });
    } finally {
      scope.close();
    }
    streams.forEach(DeviceStream::synchronize);
    streams.forEach(DeviceStream::close);
    ranks.forEach(Communicator::close);
    List<SpanData> found =
        spans.getFinishedSpanItems().stream()
            .filter(span -> span.getName().equals("nccl all_reduce"))
            .toList();
    assertEquals(2, found.size());
    assertEquals(
        List.of(0L, 1L),
        found.stream().map(span -> span.getAttributes().get(SpanProfiler.RANK)).sorted().toList());
    for (SpanData span : found) {
      assertEquals(step.getSpanContext().getSpanId(), span.getParentSpanId());
      assertEquals("all_reduce", span.getAttributes().get(SpanProfiler.OPERATION));
      assertEquals(1L, span.getAttributes().get(SpanProfiler.NUMBER));
      assertEquals(16L, span.getAttributes().get(SpanProfiler.COUNT));
      assertEquals(64L, span.getAttributes().get(SpanProfiler.BYTES));
      assertEquals(2L, span.getAttributes().get(SpanProfiler.RANKS));
      assertNull(span.getAttributes().get(SpanProfiler.END));
      assertTrue(span.getEndEpochNanos() >= span.getStartEpochNanos());
    }
    assertEquals(
        1,
        found.stream()
            .map(span -> span.getAttributes().get(SpanProfiler.COMMUNICATOR))
            .distinct()
            .count());
  }

  @Test
  void aProgramMaySetOpenTelemetryAfterItsFirstCommunicator() {
    assertTrue(new OpenTelemetryProfiling().open("job", 0, 1).isEmpty());
    set(Sampler.alwaysOn());
    assertTrue(new OpenTelemetryProfiling().open("job", 0, 1).isPresent());
  }

  @Test
  void spansWhoseEndsAreNotSeenEndAtCloseAndSaySo() {
    set(Sampler.alwaysOn());
    try (Profiler profiler = profiler()) {
      profiler.launched(operation(1));
      profiler.launched(operation(2));
      profiler.ended(operation(2), System.nanoTime());
    }
    assertEquals(
        List.of("1 unknown", "2 null"),
        spans.getFinishedSpanItems().stream()
            .map(OpenTelemetryProfilingTest::end)
            .sorted()
            .toList());
  }

  /** On GPUs ends are told some milliseconds later, and by another clock. */
  @Test
  void aSpanLastsFromLaunchToEnd() {
    set(Sampler.alwaysOn());
    long second = 1_000_000_000;
    long before = System.nanoTime();
    try (Profiler profiler = profiler()) {
      profiler.launched(operation(1));
      profiler.launched(operation(2));
      profiler.ended(operation(1), before + second);
      profiler.ended(operation(2), before - 1);
    }
    long launching = System.nanoTime() - before;
    List<Long> lengths =
        spans.getFinishedSpanItems().stream()
            .map(span -> span.getEndEpochNanos() - span.getStartEpochNanos())
            .toList();
    assertTrue(lengths.get(0) <= second, lengths.toString());
    assertTrue(lengths.get(0) >= Math.max(0, second - launching), lengths.toString());
    assertEquals(0, lengths.get(1));
  }

  @Test
  void aSpanEndsWhenItsPlaceIsNeeded() {
    set(Sampler.alwaysOn());
    Profiler profiler = profiler();
    profiler.launched(operation(1));
    profiler.launched(operation(1 + SpanProfiler.OPEN_SPANS));
    profiler.ended(operation(1), System.nanoTime());
    assertEquals(
        List.of("1 unknown"),
        spans.getFinishedSpanItems().stream().map(OpenTelemetryProfilingTest::end).toList());
    profiler.close();
  }

  @Test
  void spansThatAreNotSampledAreNotKept() {
    set(Sampler.alwaysOff());
    try (Profiler profiler = profiler()) {
      profiler.launched(operation(1));
      profiler.ended(operation(1), System.nanoTime());
    }
    assertEquals(List.of(), spans.getFinishedSpanItems());
  }

  private static String end(SpanData span) {
    return span.getAttributes().get(SpanProfiler.NUMBER)
        + " "
        + span.getAttributes().get(SpanProfiler.END);
  }
}
