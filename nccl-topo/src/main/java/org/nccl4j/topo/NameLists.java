package org.nccl4j.topo;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * The value of NCCL_ALGO or NCCL_PROTO: a list of names for all operations, and lists for single
 * operations. Examples are {@code ring,tree}, {@code ^tree} and {@code
 * ring;allreduce:tree,oneshot}. A list that begins with ^ forbids its names and allows the others.
 * Case, blanks, _ and - do not matter. If there are several lists for one operation, the first
 * counts; of several lists for all operations, the last.
 */
public final class NameLists {
  private final NameList all;
  private final Map<String, NameList> single;
  private final List<String> operations;
  private final String given;

  private NameLists(
      NameList all, Map<String, NameList> single, List<String> operations, String given) {
    this.given = given;
    this.all = all;
    this.single = single;
    this.operations = operations;
  }

  /** Parses a value. The names are not checked: see {@link #unknownNames}. */
  public static NameLists parse(String value) {
    NameList all = NameList.parse("");
    Map<String, NameList> single = new TreeMap<>();
    List<String> operations = new ArrayList<>();
    for (String section : value.split(";")) {
      int colon = section.indexOf(':');
      NameList names = NameList.parse(section.substring(colon + 1).trim());
      if (colon < 0) {
        all = names;
      } else {
        operations.add(section.substring(0, colon).trim());
        single.putIfAbsent(plain(section.substring(0, colon)), names);
      }
    }
    return new NameLists(all, single, operations, value.trim());
  }

  /** The list for operations that have none of their own. */
  public NameList all() {
    return all;
  }

  /** The list for an operation. */
  public NameList of(String operation) {
    return single.getOrDefault(plain(operation), all);
  }

  /** True if a list allows a name by listing it, for any operation. */
  public boolean listsAnywhere(String name) {
    return lists().anyMatch(list -> list.lists(name));
  }

  /** True if no name is listed for operations without a list of their own, nor for the others. */
  public boolean isEmpty() {
    return toString().isEmpty();
  }

  /** The same with one name for an operation instead of its list. */
  public NameLists with(String operation, String name) {
    Map<String, NameList> changed = new TreeMap<>(single);
    changed.put(plain(operation), NameList.parse(name));
    return new NameLists(all, changed, operations, "");
  }

  /** The same with only those names that are among some. */
  public NameLists only(Collection<String> known) {
    Set<String> plain = new TreeSet<>();
    known.forEach(name -> plain.add(plain(name)));
    Map<String, NameList> fewer = new TreeMap<>();
    single.forEach((operation, names) -> fewer.put(operation, names.only(plain)));
    return new NameLists(all.only(plain), fewer, operations, given);
  }

  /** The value as it was given, for messages; in one spelling if it was changed since. */
  public String given() {
    return given.isEmpty() ? toString() : given;
  }

  /** The listed names that are not among those known, as they are written. */
  public List<String> unknownNames(Collection<String> known) {
    return without(known, lists().flatMap(list -> list.written.stream()));
  }

  /** The operations with a list that are not among those known, as they are written. */
  public List<String> unknownOperations(Collection<String> known) {
    return without(known, operations.stream());
  }

  private Stream<NameList> lists() {
    return Stream.concat(Stream.of(all), single.values().stream());
  }

  private static List<String> without(Collection<String> known, Stream<String> written) {
    Set<String> plain = new TreeSet<>();
    known.forEach(name -> plain.add(plain(name)));
    return written.filter(name -> !plain.contains(plain(name))).toList();
  }

  private static String plain(String name) {
    return name.trim().toLowerCase(Locale.ROOT).replace("_", "").replace("-", "");
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof NameLists lists && toString().equals(lists.toString());
  }

  @Override
  public int hashCode() {
    return toString().hashCode();
  }

  /** The value in one spelling, the same for values with the same meaning. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(all.toString());
    single.forEach(
        (operation, names) ->
            text.append(text.isEmpty() ? "" : ";").append(operation).append(':').append(names));
    return text.toString();
  }

  /** The names for one operation. */
  public static final class NameList {
    private final boolean excludes;
    private final Set<String> names;
    private final List<String> written;

    private NameList(boolean excludes, Set<String> names, List<String> written) {
      this.excludes = excludes;
      this.names = names;
      this.written = written;
    }

    private static NameList parse(String list) {
      boolean excludes = list.startsWith("^");
      Set<String> names = new TreeSet<>();
      List<String> written = new ArrayList<>();
      for (String name : (excludes ? list.substring(1) : list).split(",")) {
        if (!name.isBlank()) {
          names.add(plain(name));
          written.add(name.trim());
        }
      }
      return new NameList(excludes, names, written);
    }

    private NameList only(Set<String> known) {
      Set<String> fewer = new TreeSet<>(names);
      fewer.retainAll(known);
      return new NameList(excludes, fewer, written);
    }

    /** True or false as the list allows a name; empty for a list without names. */
    public Optional<Boolean> rule(String name) {
      return names.isEmpty() ? Optional.empty() : Optional.of(allows(name));
    }

    /** True if the list allows a name. A list without names allows all. */
    public boolean allows(String name) {
      return names.isEmpty() || names.contains(plain(name)) != excludes;
    }

    /** True if a name is listed, without a ^. */
    public boolean lists(String name) {
      return !excludes && names.contains(plain(name));
    }

    @Override
    public String toString() {
      return names.isEmpty() ? "" : (excludes ? "^" : "") + String.join(",", names);
    }
  }
}
