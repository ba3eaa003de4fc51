package org.nccl4j.transport.net.ib.device;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The devices and ports in NCCL_IB_HCA: names separated by commas, each followed by :port if only
 * one port is meant. A name matches all names that begin with it; = in front of the list requires
 * equal names; ^ in front excludes the listed names. Both: ^=.
 *
 * @param text as it was written
 * @param exclude whether the list says what not to use
 * @param exact whether names are whole names
 * @param entries the list; empty for every device
 */
public record HcaFilter(String text, boolean exclude, boolean exact, List<Entry> entries) {
  /**
   * One of the list.
   *
   * @param name of a device, or how it begins
   * @param port its port; 0 for all
   */
  record Entry(String name, int port) {}

  public static HcaFilter parse(String text) {
    String rest = text.strip();
    boolean exclude = rest.startsWith("^");
    rest = exclude ? rest.substring(1) : rest;
    boolean exact = rest.startsWith("=");
    rest = exact ? rest.substring(1) : rest;
    List<Entry> entries = new ArrayList<>();
    for (String part : rest.split(",")) {
      if (!part.isBlank()) {
        entries.add(entry(part.strip(), text));
      }
    }
    return new HcaFilter(text, exclude, exact, List.copyOf(entries));
  }

  private static Entry entry(String part, String text) {
    int colon = part.indexOf(':');
    if (colon < 0) {
      return new Entry(part, 0);
    }
    try {
      int port = Integer.parseInt(part.substring(colon + 1));
      if (colon > 0 && port >= 1 && port <= 255) {
        return new Entry(part.substring(0, colon), port);
      }
    } catch (NumberFormatException e) {
      throw wrong(part, text, e);
    }
    throw wrong(part, text, null);
  }

  private static InvalidArgumentException wrong(String part, String text, Throwable cause) {
    return new InvalidArgumentException(
        ErrorId.SETTING,
        "NCCL_IB_HCA=%s: '%s' is not a device with a port behind it".formatted(text, part),
        "write names such as mlx5_0 or mlx5_0:1, separated by commas, with = in front for whole"
            + " names or ^ to exclude",
        cause);
  }

  /** True if a port may be used. */
  public boolean allows(String device, int port) {
    if (entries.isEmpty()) {
      return true;
    }
    boolean listed =
        entries.stream()
            .anyMatch(
                entry ->
                    (exact ? device.equals(entry.name()) : device.startsWith(entry.name()))
                        && (entry.port() == 0 || entry.port() == port));
    return listed != exclude;
  }
}
