package org.nccl4j.api.wire.tls;

import java.util.Optional;
import javax.net.ssl.SSLContext;

/**
 * The PEM files with which ranks authenticate each other in TLS, besides the communicator's secret:
 * all three, or none for connections without TLS.
 *
 * @param certificate this rank's, followed by those between it and an authority, if any
 * @param key its private key, in PKCS #8 without a password
 * @param authorities whose certificates other ranks may have
 */
public record TlsFiles(String certificate, String key, String authorities) {
  /** No TLS. */
  public static final TlsFiles NONE = new TlsFiles("", "", "");

  /** True if some are given and others are not. */
  public boolean areIncomplete() {
    return isNone() != certificate.isEmpty()
        || isNone() != key.isEmpty()
        || isNone() != authorities.isEmpty();
  }

  /** True if there are none; a record's own comparison is slow when a process first makes one. */
  public boolean isNone() {
    return certificate.isEmpty() && key.isEmpty() && authorities.isEmpty();
  }

  /**
   * Returns the TLS context of the files; empty where there are none.
   *
   * @throws org.nccl4j.device.InvalidArgumentException naming the file that cannot be used, why,
   *     and the remedy
   */
  public Optional<SSLContext> context() {
    return isNone() ? Optional.empty() : Optional.of(new Certificates(this).context());
  }
}
