package org.nccl4j.api.wire;

/**
 * Ports that sockets may listen on.
 *
 * @param first the lowest
 * @param last the highest, included
 */
public record PortRange(int first, int last) {
  /** Whichever port the operating system gives. */
  public static final PortRange ANY = new PortRange(0, 0);

  /** Checks that they are ports and in order. */
  public PortRange {
    if (first < 0 || last > 65535 || first > last || (first == 0 && last != 0)) {
      throw new IllegalArgumentException("not a range of ports: " + first + "-" + last);
    }
  }

  /** From "29500-29600", "29500", or empty for any. */
  public static PortRange parse(String text) {
    String trimmed = text.trim();
    if (trimmed.isEmpty()) {
      return ANY;
    }
    int dash = trimmed.indexOf('-');
    int first = Integer.parseInt(dash < 0 ? trimmed : trimmed.substring(0, dash).trim());
    return new PortRange(
        first, dash < 0 ? first : Integer.parseInt(trimmed.substring(dash + 1).trim()));
  }

  /** The number of ports. */
  int count() {
    return last - first + 1;
  }

  @Override
  public String toString() {
    return first == last ? Integer.toString(first) : first + "-" + last;
  }
}
