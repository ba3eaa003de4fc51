package org.nccl4j.api.observe.http;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.http.PrometheusWriter.Family;

/** Prometheus' text format, character by character. */
class PrometheusWriterTest {
  private final PrometheusWriter writer = new PrometheusWriter();

  @Test
  void aFamilyHasItsHelpItsTypeAndItsSamples() {
    Map<String, Double> samples = new LinkedHashMap<>();
    samples.put("", 3.0);
    samples.put(PrometheusWriter.label("rank", "1") + "," + PrometheusWriter.label("x", ""), 0.5);
    writer.write(Family.counter("a_total", "All a."), samples);
    writer.write(Family.gauge("b", "No b."), Map.of());
    assertEquals(
        """
        # HELP a_total All a.
        # TYPE a_total counter
        a_total 3
        a_total{rank="1",x=""} 0.5
        # HELP b No b.
        # TYPE b gauge
        """,
        writer.toString());
  }

  @Test
  void wholeNumbersHaveNoExponentUpTo2To53() {
    Map<String, Double> samples = new LinkedHashMap<>();
    samples.put("a", 0x1p53 - 1);
    samples.put("b", 0x1p53);
    samples.put("c", -1e9);
    samples.put("d", 1e300);
    writer.write(Family.gauge("n", "Numbers."), samples);
    assertEquals(
        "n{a} 9007199254740991\nn{b} 9.007199254740992E15\nn{c} -1000000000\nn{d} 1.0E300\n",
        writer.toString().replaceAll("#.*\n", ""));
  }

  @Test
  void valuesOfLabelsAreEscaped() {
    assertEquals("n=\"a\\\\b\\\"c\\nd\"", PrometheusWriter.label("n", "a\\b\"c\nd"));
  }
}
