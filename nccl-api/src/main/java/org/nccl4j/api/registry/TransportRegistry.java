package org.nccl4j.api.registry;

import java.lang.System.Logger;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.regex.Pattern;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/** The transports on the module path and class path, in the order in which they are tried. */
public final class TransportRegistry {
  private static final Logger LOG = System.getLogger("org.nccl4j.INIT");
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9-]{1,32}");

  private TransportRegistry() {}

  /**
   * The providers that may be used, best first.
   *
   * @param wanted names in order, separated by commas, as NCCL4J_TRANSPORTS says; empty for all by
   *     priority and name
   * @throws InvalidArgumentException if a wanted one does not exist
   */
  public static List<TransportProvider> providers(String wanted) {
    List<TransportProvider> all = load();
    if (wanted.isBlank()) {
      all.sort(
          Comparator.comparingInt(TransportProvider::priority)
              .reversed()
              .thenComparing(TransportProvider::name));
      return all;
    }
    List<TransportProvider> chosen = new ArrayList<>();
    for (String name : wanted.split(",")) {
      chosen.add(find(all, name.trim(), wanted));
    }
    return chosen;
  }

  private static TransportProvider find(List<TransportProvider> all, String name, String wanted) {
    return all.stream()
        .filter(provider -> provider.name().equalsIgnoreCase(name))
        .findFirst()
        .orElseThrow(
            () ->
                new InvalidArgumentException(
                    "NCCL4J_TRANSPORTS=%s names '%s', which is not among the transports found: %s"
                        .formatted(
                            wanted, name, all.stream().map(TransportProvider::name).toList()),
                    "correct the name, or put the transport's jar on the module path"));
  }

  private static List<TransportProvider> load() {
    List<TransportProvider> all = new ArrayList<>();
    var found = ServiceLoader.load(TransportProvider.class).iterator();
    while (true) {
      try {
        if (!found.hasNext()) {
          return all;
        }
        add(all, found.next());
      } catch (ServiceConfigurationError e) {
        LOG.log(Logger.Level.WARNING, "a transport cannot be loaded and is left out: " + e, e);
      }
    }
  }

  private static void add(List<TransportProvider> all, TransportProvider provider) {
    String name = provider.name();
    if (!NAME.matcher(name).matches()) {
      throw new InvalidUsageException(
          "transport %s calls itself '%s'".formatted(provider.getClass().getName(), name),
          "use at most 32 letters, digits and hyphens");
    }
    if (all.stream().anyMatch(other -> other.name().equals(name))) {
      LOG.log(
          Logger.Level.WARNING,
          "two transports are called {0}; {1} is left out",
          name,
          provider.getClass().getName());
    } else {
      all.add(provider);
    }
  }
}
