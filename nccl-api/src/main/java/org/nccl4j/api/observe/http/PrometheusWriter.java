package org.nccl4j.api.observe.http;

import java.util.Map;

/**
 * Writes families of samples in Prometheus' text format 0.0.4. For one thread.
 *
 * <p>The samples of a family are values by labels; labels are texts of {@link #label}, separated by
 * commas, or empty.
 */
public final class PrometheusWriter {
  /** The format's media type. */
  public static final String MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8";

  /** Up to here a double has every whole number. */
  private static final double WHOLE = 0x1p53;

  private final StringBuilder text = new StringBuilder();

  /** A text without families. */
  public PrometheusWriter() {}

  /**
   * A family of counters or gauges.
   *
   * @param type counter or gauge
   * @param help one line
   */
  public record Family(String name, String type, String help) {
    private static final String COUNTER = "counter";

    /** Samples that only grow. */
    public static Family counter(String name, String help) {
      return new Family(name, COUNTER, help);
    }

    /** Samples that rise and fall. */
    public static Family gauge(String name, String help) {
      return new Family(name, "gauge", help);
    }

    /** True if its samples only grow. */
    public boolean isCounter() {
      return type.equals(COUNTER);
    }
  }

  /** Returns one label, with its value escaped. */
  public static String label(String name, String value) {
    String escaped = value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
    return name + "=\"" + escaped + "\"";
  }

  /** Writes a family, which has to be written once, with all its samples. */
  public void write(Family family, Map<String, Double> samples) {
    String name = family.name();
    text.append("# HELP ").append(name).append(' ').append(family.help()).append('\n');
    text.append("# TYPE ").append(name).append(' ').append(family.type()).append('\n');
    samples.forEach(
        (labels, value) -> {
          text.append(name);
          if (!labels.isEmpty()) {
            text.append('{').append(labels).append('}');
          }
          text.append(' ').append(number(value)).append('\n');
        });
  }

  /** Whole numbers have no exponent up to 2^53. */
  private static String number(double value) {
    return value == Math.rint(value) && Math.abs(value) < WHOLE
        ? String.valueOf((long) value)
        : String.valueOf(value);
  }

  /** Returns what was written so far. */
  @Override
  public String toString() {
    return text.toString();
  }
}
