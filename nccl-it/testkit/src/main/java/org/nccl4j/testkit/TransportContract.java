package org.nccl4j.testkit;

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;

/**
 * The contract of every transport for host devices. Its author extends this class, implements its
 * creation, states its limits, and runs the checks. A check without the information where to look
 * fails: {@link #unreachable()} and {@link #filesOf} say it, or {@link #reachesAll()} and {@link
 * #usesNoFiles()} that there is nothing to look at.
 *
 * <p>Most checks have both ends in this process; those of {@link #acrossProcesses()} start other
 * JVMs, which are given the class path and the provider's class.
 */
public abstract class TransportContract {
  /** Called by subclasses. */
  protected TransportContract() {}

  /** A new provider. Its class is public and has a public constructor without parameters. */
  protected abstract TransportProvider provider();

  /** The settings that the transport is told. */
  protected Map<String, String> settings() {
    return Map.of();
  }

  /**
   * Peers that rank 0, which is {@code peer(0)}, cannot reach, such as those of another host; at
   * least one, unless {@link #reachesAll()}.
   */
  protected List<PeerInfo> unreachable() {
    return List.of();
  }

  /** Declares that there is no peer that the transport cannot reach. */
  protected boolean reachesAll() {
    return false;
  }

  /** True if it connects ranks of two processes of one machine. */
  protected boolean acrossProcesses() {
    return true;
  }

  /**
   * The files that a process has in the places that the transport uses; to be overridden, unless it
   * {@link #usesNoFiles()}.
   */
  protected List<Path> filesOf(long processId) {
    Expect.that(usesNoFiles(), "files are not looked at: override filesOf, or usesNoFiles");
    return List.of();
  }

  /** Declares that the transport makes no files. */
  protected boolean usesNoFiles() {
    return false;
  }

  /** Returns the class path for another JVM: all that this one has. */
  protected String childClassPath() {
    return Stream.of("jdk.module.path", "java.class.path")
        .map(System::getProperty)
        .filter(Objects::nonNull)
        .collect(Collectors.joining(File.pathSeparator));
  }

  /** The rank of a number in this process, as others are told of it; for {@link #unreachable()}. */
  protected static PeerInfo peer(int rank) {
    return ContractContext.peer(rank, "this process");
  }

  /** All checks, in an order that begins with the simple ones. */
  public final List<Check> checks() {
    CheckedTransport checked =
        new CheckedTransport(
            this::provider,
            settings(),
            unreachable(),
            reachesAll(),
            this::filesOf,
            childClassPath());
    List<Check> checks = new ArrayList<>();
    checks.addAll(new ReachChecks(checked).all());
    checks.addAll(new ConnectChecks(checked).all());
    checks.addAll(new MemoryChecks(checked).all());
    checks.addAll(new LifeCycleChecks(checked).all());
    if (acrossProcesses()) {
      checks.addAll(new ProcessChecks(checked).all());
    }
    return List.copyOf(checks);
  }
}
