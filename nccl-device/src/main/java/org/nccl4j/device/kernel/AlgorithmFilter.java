package org.nccl4j.device.kernel;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Stream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The algorithms and protocols that NCCL_ALGO and NCCL_PROTO allow: lists of names for all
 * operations and for single ones, such as {@code ring,tree} or {@code ^tree} or {@code
 * ring;allreduce:tree,oneshot}. A list that begins with ^ names what is not allowed. Case, _ and -
 * do not matter. {@code sendrecv} stands for sends and receives.
 */
public final class AlgorithmFilter {
  /** Allows everything. */
  public static final AlgorithmFilter ALL = new AlgorithmFilter(Lists.parse(""), Lists.parse(""));

  private final Lists algorithms;
  private final Lists protocols;

  private AlgorithmFilter(Lists algorithms, Lists protocols) {
    this.algorithms = algorithms;
    this.protocols = protocols;
  }

  /**
   * Reads both settings.
   *
   * @param algo the value of NCCL_ALGO; empty allows all
   * @param proto the value of NCCL_PROTO, likewise
   * @throws InvalidArgumentException for a name that does not exist
   */
  public static AlgorithmFilter parse(String algo, String proto) {
    return new AlgorithmFilter(
        checked("NCCL_ALGO", algo, Algorithm.names()),
        checked("NCCL_PROTO", proto, Stream.of(Protocol.values()).map(Protocol::label).toList()));
  }

  private static Lists checked(String setting, String value, List<String> known) {
    Lists lists = Lists.parse(value);
    List<String> unknown = lists.without(known);
    if (!unknown.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.NAME,
          "%s=%s names '%s', which does not exist".formatted(setting, value, unknown.get(0)),
          "use some of " + String.join(", ", known));
    }
    return lists;
  }

  /** The names in a setting's value that are not among those known, as they are written. */
  public static List<String> unknown(String value, List<String> known) {
    return Lists.parse(value).without(known);
  }

  /**
   * The able algorithms that are allowed for an operation; all of them if none is allowed, since
   * one setting covers operations that do not have the named one.
   */
  public List<Algorithm> algorithms(Operation operation, List<Algorithm> able) {
    return algorithms.of(operation).among(able, Algorithm::label);
  }

  /** The able protocols that are allowed for an operation; all of them if none is allowed. */
  public List<Protocol> protocols(Operation operation, List<Protocol> able) {
    return protocols.of(operation).among(able, Protocol::label);
  }

  /** True if a algorithm between windows is allowed for an operation, with its protocol. */
  public boolean allows(Operation operation, Algorithm algorithm) {
    return algorithms.of(operation).allows(algorithm.label())
        && protocols.of(operation).allows(algorithm.protocol().label());
  }

  /** True if a algorithm between windows is allowed for operations without a list of their own. */
  public boolean allows(Algorithm algorithm) {
    return algorithms.all.allows(algorithm.label());
  }

  /** True if a algorithm between windows is asked for: listed for an operation, without a ^. */
  public boolean demands(Operation operation, Algorithm algorithm) {
    return algorithms.of(operation).lists(algorithm.label());
  }

  /** True if an algorithm is asked for, for any operation. */
  public boolean demandsAnywhere(Algorithm algorithm) {
    return algorithms.all.lists(algorithm.label())
        || algorithms.single.values().stream().anyMatch(names -> names.lists(algorithm.label()));
  }

  /** True if NVLS is asked for, in one of its forms, for any operation. */
  public boolean demandsNvls() {
    return demandsAnywhere(Algorithm.NVLS) || demandsAnywhere(Algorithm.NVLS_TREE);
  }

  /** True if no algorithm is named, so that all are allowed. */
  public boolean allowsAllAlgorithms() {
    return algorithms.toString().isEmpty();
  }

  /** The same with one algorithm for an operation instead of its list. */
  public AlgorithmFilter with(Operation operation, Algorithm algorithm) {
    Map<String, Names> single = new TreeMap<>(algorithms.single);
    single.put(Lists.scope(operation), Names.parse(algorithm.label()));
    return new AlgorithmFilter(new Lists(algorithms.all, single), protocols);
  }

  /** The same with some algorithms for all operations instead of all lists. */
  public AlgorithmFilter withOnly(List<Algorithm> only) {
    String names = String.join(",", only.stream().map(Algorithm::label).toList());
    return new AlgorithmFilter(Lists.parse(names), protocols);
  }

  /** NCCL_ALGO in one spelling, the same for values that mean the same. */
  public String algorithmText() {
    return algorithms.toString();
  }

  /** NCCL_PROTO in one spelling, the same for values that mean the same. */
  public String protocolText() {
    return protocols.toString();
  }

  @Override
  public String toString() {
    return "algorithms '%s', protocols '%s'".formatted(algorithms, protocols);
  }

  private static String plain(String name) {
    return name.trim().toLowerCase(Locale.ROOT).replace("_", "").replace("-", "");
  }

  /**
   * A list of names.
   *
   * @param excludes whether it begins with ^
   * @param names in one spelling; none allows all
   * @param written the same as the user wrote them
   */
  private record Names(boolean excludes, Set<String> names, List<String> written) {
    static Names parse(String list) {
      boolean excludes = list.startsWith("^");
      Set<String> names = new TreeSet<>();
      List<String> written = new ArrayList<>();
      for (String name : (excludes ? list.substring(1) : list).split(",")) {
        if (!name.isBlank()) {
          names.add(plain(name));
          written.add(name.trim());
        }
      }
      return new Names(excludes, names, written);
    }

    boolean allows(String label) {
      return names.isEmpty() || names.contains(plain(label)) != excludes;
    }

    boolean lists(String label) {
      return !excludes && names.contains(plain(label));
    }

    <T> List<T> among(List<T> able, Function<T, String> label) {
      List<T> allowed = able.stream().filter(one -> allows(label.apply(one))).toList();
      return allowed.isEmpty() ? able : allowed;
    }

    @Override
    public String toString() {
      return names.isEmpty() ? "" : (excludes ? "^" : "") + String.join(",", names);
    }
  }

  /**
   * The lists of a setting.
   *
   * @param all for operations without one of their own
   * @param single those of single operations, by {@link #scope}
   */
  private record Lists(Names all, Map<String, Names> single) {
    private static final String SEND_RECV = "sendrecv";

    static Lists parse(String value) {
      Names all = Names.parse("");
      Map<String, Names> single = new TreeMap<>();
      for (String section : value.split(";")) {
        int colon = section.indexOf(':');
        Names names = Names.parse(section.substring(colon + 1).trim());
        if (colon < 0) {
          all = names;
        } else {
          single.putIfAbsent(plain(section.substring(0, colon)), names);
        }
      }
      return new Lists(all, single);
    }

    static String scope(Operation operation) {
      return operation.isP2p() ? SEND_RECV : plain(operation.key());
    }

    Names of(Operation operation) {
      return single.getOrDefault(scope(operation), all);
    }

    List<String> without(List<String> known) {
      Set<String> plain = new TreeSet<>();
      known.forEach(name -> plain.add(plain(name)));
      return Stream.concat(Stream.of(all), single.values().stream())
          .flatMap(names -> names.written.stream())
          .filter(name -> !plain.contains(plain(name)))
          .toList();
    }

    @Override
    public String toString() {
      StringBuilder text = new StringBuilder(all.toString());
      single.forEach(
          (operation, names) ->
              text.append(text.isEmpty() ? "" : ";").append(operation).append(':').append(names));
      return text.toString();
    }
  }
}
