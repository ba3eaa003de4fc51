package org.nccl4j.api.bootstrap;

import java.util.Optional;
import javax.net.ssl.SSLContext;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TlsSettings;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The PEM files by which ranks know each other in TLS, beside the communicator's secret: all three,
 * or none for connections without TLS.
 *
 * @param certificate this rank's, followed by those between it and an authority, if any
 * @param key its private key, in PKCS #8 without a password
 * @param authorities whose certificates other ranks may have
 */
public record TlsFiles(String certificate, String key, String authorities) {
  /** No TLS. */
  public static final TlsFiles NONE = new TlsFiles("", "", "");

  /**
   * As set.
   *
   * @throws InvalidArgumentException if some of the settings are there and others are not
   */
  public static TlsFiles from(Settings settings) {
    TlsFiles files =
        new TlsFiles(
            settings.get(TlsSettings.NCCL4J_TLS_CERT),
            settings.get(TlsSettings.NCCL4J_TLS_KEY),
            settings.get(TlsSettings.NCCL4J_TLS_CA));
    if (files.isNone() != files.certificate.isEmpty()
        || files.isNone() != files.key.isEmpty()
        || files.isNone() != files.authorities.isEmpty()) {
      throw new InvalidArgumentException(
          ErrorId.CERTIFICATE,
          "of NCCL4J_TLS_CERT=%s, NCCL4J_TLS_KEY=%s and NCCL4J_TLS_CA=%s some are not set"
              .formatted(files.certificate, files.key, files.authorities),
          "set all three to PEM files, on all ranks, or none");
    }
    return files;
  }

  private boolean isNone() {
    return certificate.isEmpty() && key.isEmpty() && authorities.isEmpty();
  }

  /**
   * What they say; nothing where there are none.
   *
   * @throws InvalidArgumentException naming the file that cannot be used, why, and the remedy
   */
  Optional<SSLContext> context() {
    return isNone() ? Optional.empty() : Optional.of(new Certificates(this).context());
  }
}
