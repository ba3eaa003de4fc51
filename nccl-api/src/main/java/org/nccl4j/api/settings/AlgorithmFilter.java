package org.nccl4j.api.settings;

import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;
import org.nccl4j.topo.NameLists;
import org.nccl4j.topo.NameLists.NameList;

/**
 * The algorithms and protocols that NCCL_ALGO and NCCL_PROTO allow. {@link NameLists} has the
 * settings' grammar, and {@link Operation#scope} its names of operations.
 */
public final class AlgorithmFilter {
  /** Allows everything. */
  public static final AlgorithmFilter ALL =
      new AlgorithmFilter(NameLists.parse(""), NameLists.parse(""));

  private final NameLists algorithms;
  private final NameLists protocols;

  private AlgorithmFilter(NameLists algorithms, NameLists protocols) {
    this.algorithms = algorithms;
    this.protocols = protocols;
  }

  /**
   * The filter of both settings.
   *
   * @throws InvalidArgumentException for a name that does not exist
   */
  public static AlgorithmFilter of(SettingValues settings) {
    return of(settings, settings.get(Settings.NCCL_ALGO), settings.get(Settings.NCCL_PROTO));
  }

  /**
   * The filter of two values.
   *
   * @param algo the value of NCCL_ALGO; empty allows all
   * @param proto the value of NCCL_PROTO, likewise
   * @throws InvalidArgumentException for a name that does not exist
   */
  public static AlgorithmFilter parse(String algo, String proto) {
    return of(null, NameLists.parse(algo), NameLists.parse(proto));
  }

  /**
   * The filter of two values.
   *
   * @param settings where they come from; null if that is unknown
   */
  private static AlgorithmFilter of(SettingValues settings, NameLists algo, NameLists proto) {
    if (algo.isEmpty() && proto.isEmpty()) {
      return ALL;
    }
    List<String> protocols = Stream.of(Protocol.values()).map(Protocol::label).toList();
    check(settings, Settings.NCCL_ALGO, algo, Algorithm.accepted(), Algorithm.names());
    check(settings, Settings.NCCL_PROTO, proto, protocols, protocols);
    return new AlgorithmFilter(algo, proto);
  }

  /**
   * Checks the names in a value.
   *
   * @param accepted the names that it may have
   * @param offered those that have an effect
   */
  private static void check(
      SettingValues settings,
      Setting<?> setting,
      NameLists value,
      List<String> accepted,
      List<String> offered) {
    refuse(settings, setting, value, value.unknownNames(accepted), offered);
    refuse(
        settings, setting, value, value.unknownOperations(Operation.scopes()), Operation.scopes());
  }

  private static void refuse(
      SettingValues settings,
      Setting<?> setting,
      NameLists value,
      List<String> unknown,
      List<String> known) {
    if (!unknown.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.NAME,
          "%s=%s%s names '%s', which does not exist"
              .formatted(
                  setting.name(),
                  value.given(),
                  settings instanceof Settings all ? all.origin(setting) : "",
                  unknown.get(0)),
          "use one or more of " + String.join(", ", known));
    }
  }

  /**
   * The able algorithms that are allowed for an operation; all of them if none is allowed, since
   * one setting covers operations that do not have the named one.
   */
  public List<Algorithm> algorithms(Operation operation, List<Algorithm> able) {
    return among(algorithms.of(operation.scope()), able, Algorithm::label);
  }

  /** The able protocols that are allowed for an operation; all of them if none is allowed. */
  public List<Protocol> protocols(Operation operation, List<Protocol> able) {
    return among(protocols.of(operation.scope()), able, Protocol::label);
  }

  private static <T> List<T> among(NameList names, List<T> able, Function<T, String> label) {
    List<T> allowed = able.stream().filter(one -> names.allows(label.apply(one))).toList();
    return allowed.isEmpty() ? able : allowed;
  }

  /** True if an algorithm between windows is allowed for an operation, with its protocol. */
  public boolean allows(Operation operation, Algorithm algorithm) {
    return allows(operation, algorithm, algorithm.protocol());
  }

  /** True if an algorithm is allowed for an operation, by whatever protocol. */
  public boolean allowsByAny(Operation operation, Algorithm algorithm) {
    return algorithms.of(operation.scope()).allows(algorithm.label());
  }

  /** True if a way over connections is allowed for an operation. */
  public boolean allows(Operation operation, Algorithm algorithm, Protocol protocol) {
    return allowsByAny(operation, algorithm)
        && protocols.of(operation.scope()).allows(protocol.label());
  }

  /** True if an algorithm between windows is allowed for operations without a list of their own. */
  public boolean allows(Algorithm algorithm) {
    return algorithms.all().allows(algorithm.label());
  }

  /** True if an algorithm is asked for: listed for an operation, without a ^. */
  public boolean demands(Operation operation, Algorithm algorithm) {
    return algorithms.of(operation.scope()).lists(algorithm.label());
  }

  /** True if an algorithm is asked for, and no other. */
  public boolean demandsAlone(Operation operation, Algorithm algorithm) {
    return Stream.of(Algorithm.values())
        .allMatch(each -> demands(operation, each) == (each == algorithm));
  }

  /** True if an algorithm is asked for, for any operation. */
  public boolean demandsAnywhere(Algorithm algorithm) {
    return algorithms.listsAnywhere(algorithm.label());
  }

  /** True if NVLS is asked for, in one of its forms, for any operation. */
  public boolean demandsNvls() {
    return demandsAnywhere(Algorithm.NVLS) || demandsAnywhere(Algorithm.NVLS_TREE);
  }

  /** True if no algorithm is named, so that all are allowed. */
  public boolean allowsAllAlgorithms() {
    return algorithms.isEmpty();
  }

  /** The same with one algorithm for an operation instead of its list. */
  public AlgorithmFilter with(Operation operation, Algorithm algorithm) {
    return new AlgorithmFilter(algorithms.with(operation.scope(), algorithm.label()), protocols);
  }

  /** The same with some algorithms for all operations instead of all lists. */
  public AlgorithmFilter withOnly(List<Algorithm> only) {
    String names = String.join(",", only.stream().map(Algorithm::label).toList());
    return new AlgorithmFilter(NameLists.parse(names), protocols);
  }

  /** NCCL_ALGO in one spelling, the same for values that mean the same. */
  public String algorithmText() {
    return algorithms.toString();
  }

  /** NCCL_PROTO in one spelling, the same for values that mean the same. */
  public String protocolText() {
    return protocols.toString();
  }

  /** The settings that are set, with their values as they were given. */
  @Override
  public String toString() {
    String algo = algorithms.isEmpty() ? "" : "NCCL_ALGO=" + algorithms.given();
    String proto = protocols.isEmpty() ? "" : "NCCL_PROTO=" + protocols.given();
    return algo + (algo.isEmpty() || proto.isEmpty() ? "" : " and ") + proto;
  }
}
