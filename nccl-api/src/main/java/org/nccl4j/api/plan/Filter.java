package org.nccl4j.api.plan;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.function.Function;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * What NCCL_ALGO or NCCL_PROTO allows: lists of names for all collectives and for single ones, such
 * as {@code ring,tree} or {@code ^tree} or {@code ring;allreduce:tree,oneshot}. A list that begins
 * with ^ names what is not allowed.
 *
 * @param setting its name
 * @param value what the user wrote; empty allows all
 */
record Filter(String setting, String value) {
  /**
   * Those of some values that are allowed; all of them if the setting leaves none, since one
   * setting covers collectives that do not have the named one.
   */
  <T> List<T> apply(String collective, List<T> all, Function<T, String> name) {
    String list = listFor(normal(collective));
    if (list.isEmpty()) {
      return all;
    }
    boolean exclude = list.startsWith("^");
    Set<String> names = names(list);
    List<T> allowed =
        all.stream().filter(t -> names.contains(normal(name.apply(t))) != exclude).toList();
    return allowed.isEmpty() ? all : allowed;
  }

  /** Whether a name is allowed, and, where names are listed, is among them. */
  boolean allows(String collective, String name) {
    String list = listFor(normal(collective));
    return list.isEmpty() || names(list).contains(normal(name)) != list.startsWith("^");
  }

  /** Whether a name is asked for: listed, without a ^. */
  boolean demands(String collective, String name) {
    String list = listFor(normal(collective));
    return !list.isEmpty() && !list.startsWith("^") && names(list).contains(normal(name));
  }

  private static Set<String> names(String list) {
    Set<String> names = new LinkedHashSet<>();
    for (String part : (list.startsWith("^") ? list.substring(1) : list).split(",")) {
      names.add(normal(part));
    }
    return names;
  }

  /**
   * Checks every name in the setting.
   *
   * @throws InvalidArgumentException for a name that no collective has
   */
  Filter checked(List<String> known) {
    Set<String> names = new LinkedHashSet<>();
    known.forEach(k -> names.add(normal(k)));
    for (String section : value.split(";")) {
      String list = section.substring(section.indexOf(':') + 1).trim();
      for (String part : (list.startsWith("^") ? list.substring(1) : list).split(",")) {
        if (!part.isBlank() && !names.contains(normal(part))) {
          throw new InvalidArgumentException(
              ErrorId.NAME,
              "%s=%s names '%s', which does not exist".formatted(setting, value, part.trim()),
              "use some of " + String.join(", ", known));
        }
      }
    }
    return this;
  }

  private String listFor(String collective) {
    String list = "";
    for (String section : value.split(";")) {
      int colon = section.indexOf(':');
      if (colon < 0) {
        list = section.trim();
      } else if (normal(section.substring(0, colon)).equals(collective)) {
        return section.substring(colon + 1).trim();
      }
    }
    return list;
  }

  private static String normal(String name) {
    return name.trim().toLowerCase(Locale.ROOT).replace("_", "").replace("-", "");
  }
}
