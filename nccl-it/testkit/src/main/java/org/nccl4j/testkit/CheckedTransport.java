package org.nccl4j.testkit;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;

/**
 * A transport that is checked, as the author of its {@link TransportContract} describes it there.
 *
 * @param newProvider {@code provider}
 * @param settings {@code settings}
 * @param unreachable {@code unreachable}
 * @param reachesAll {@code reachesAll}
 * @param files {@code filesOf}
 * @param childClassPath {@code childClassPath}
 */
record CheckedTransport(
    Supplier<TransportProvider> newProvider,
    Map<String, String> settings,
    List<PeerInfo> unreachable,
    boolean reachesAll,
    LongFunction<List<Path>> files,
    String childClassPath) {
  /** A new provider. */
  TransportProvider provider() {
    return newProvider.get();
  }

  /** The files that a process has. */
  List<Path> filesOf(long processId) {
    return files.apply(processId);
  }
}
