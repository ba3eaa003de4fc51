package org.nccl4j.api;

import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import org.nccl4j.api.bootstrap.BootstrapId;
import org.nccl4j.api.bootstrap.BootstrapOptions;
import org.nccl4j.api.bootstrap.BootstrapRoot;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;

/**
 * What the ranks of a communicator need in common to find each other: where the bootstrap root
 * listens, and a secret that its connections are proved with. One rank makes it and gives it to the
 * others by whatever means the program has; who knows it can join, so treat it as a password.
 *
 * <p>Immutable. Its text form is printable and made of letters and digits, so that it fits in an
 * environment variable or on a command line.
 */
public final class UniqueId {
  private static final Duration PATIENCE = Duration.ofMinutes(10);

  private final byte[] bytes;

  private UniqueId(byte[] bytes) {
    this.bytes = bytes;
  }

  /**
   * A new id, with a bootstrap root listening in this process until the communicator has been made
   * and closed, creating it has failed, or no rank has come for 10 minutes (or the time to create a
   * communicator, if that is longer). The process must live until all ranks have joined.
   *
   * <p>With NCCL_COMM_ID=host:port the id follows from that setting: every rank can make it for
   * itself, and rank 0 starts the root there when it joins. Such an id is no secret unless
   * NCCL4J_COMM_SECRET is set too.
   *
   * @throws org.nccl4j.device.SystemErrorException if no socket can be opened
   */
  public static UniqueId create() {
    return create(CommunicatorConfig.defaults());
  }

  /**
   * A new id, with settings for this communicator alone.
   *
   * @see #create()
   */
  public static UniqueId create(CommunicatorConfig config) {
    Settings settings = Settings.ofProcess(Given.notNull(config, "configuration").settings());
    BootstrapOptions options = BootstrapOptions.from(settings);
    Duration deadline = settings.get(Settings.NCCL4J_INIT_TIMEOUT);
    Duration patience = deadline.compareTo(PATIENCE) > 0 ? deadline : PATIENCE;
    return new UniqueId(BootstrapRoot.create(options, patience).encode());
  }

  /**
   * The id that another rank's {@link #toBytes()} gave.
   *
   * @throws InvalidArgumentException if these are not the bytes of an id
   */
  public static UniqueId fromBytes(byte[] bytes) {
    return new UniqueId(BootstrapId.decode(Given.notNull(bytes, "bytes of a unique id")).encode());
  }

  /**
   * The id that another rank's {@link #toString()} gave.
   *
   * @throws InvalidArgumentException if this is not the text of an id
   */
  public static UniqueId parse(String text) {
    try {
      return fromBytes(HexFormat.of().parseHex(Given.notNull(text, "text of a unique id")));
    } catch (IllegalArgumentException e) {
      throw new InvalidArgumentException(
          ErrorId.UNIQUE_ID,
          "this text is not a unique id (" + e.getMessage() + ")",
          "pass on what UniqueId.toString() gave, unchanged",
          e);
    }
  }

  /** Its binary form; at most 128 bytes. */
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
