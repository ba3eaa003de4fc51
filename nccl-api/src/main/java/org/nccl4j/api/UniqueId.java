package org.nccl4j.api;

import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import org.nccl4j.api.bootstrap.BootstrapId;
import org.nccl4j.api.bootstrap.BootstrapOptions;
import org.nccl4j.api.bootstrap.BootstrapRoot;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The address of the bootstrap root, and a secret that proves membership. The ranks of a
 * communicator use it to find each other. One rank creates it and passes it to the others through
 * any channel. Everyone who knows it can join, so treat it as a password.
 *
 * <p>Immutable. The text form has only letters and digits, so it fits into an environment variable
 * or a command line.
 */
public final class UniqueId {
  private static final Duration PATIENCE = Duration.ofMinutes(10);

  private final byte[] bytes;

  private UniqueId(byte[] bytes) {
    this.bytes = bytes;
  }

  /**
   * Creates an id and starts a bootstrap root in this process. The root listens until the
   * communicator has been created and closed, the creation has failed, or no rank has joined for 10
   * minutes (or for the longest time of a creation, if that is longer). The process must live until
   * all ranks have joined.
   *
   * <p>With NCCL_COMM_ID=host:port the id follows from that setting: every rank can create it, and
   * rank 0 starts the root there when it joins. Such an id is not secret unless NCCL4J_COMM_SECRET
   * is set too.
   *
   * @throws org.nccl4j.device.SystemErrorException if no socket can be opened
   */
  public static UniqueId create() {
    return create(CommunicatorConfig.defaults());
  }

  /**
   * Creates an id with settings for this communicator.
   *
   * @see #create()
   */
  public static UniqueId create(CommunicatorConfig config) {
    Settings settings = Settings.ofProcess(Arguments.notNull(config, "configuration").settings());
    BootstrapOptions options = BootstrapOptions.from(settings);
    Duration timeout = settings.get(Settings.NCCL4J_INIT_TIMEOUT);
    Duration patience = timeout.compareTo(PATIENCE) > 0 ? timeout : PATIENCE;
    return new UniqueId(BootstrapRoot.create(options, patience).encode());
  }

  /**
   * Parses the result of another rank's {@link #toBytes()}.
   *
   * @throws InvalidArgumentException for invalid bytes
   */
  public static UniqueId fromBytes(byte[] bytes) {
    return new UniqueId(
        BootstrapId.decode(Arguments.notNull(bytes, "bytes of a unique id")).encode());
  }

  /**
   * Parses the result of another rank's {@link #toString()}.
   *
   * @throws InvalidArgumentException for invalid text
   */
  public static UniqueId parse(String text) {
    return new UniqueId(BootstrapId.parse(Arguments.notNull(text, "text of a unique id")).encode());
  }

  /** The binary form */
  public byte[] toBytes() {
    return bytes.clone();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof UniqueId id && Arrays.equals(bytes, id.bytes);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bytes);
  }

  @Override
  public String toString() {
    return HexFormat.of().formatHex(bytes);
  }
}
