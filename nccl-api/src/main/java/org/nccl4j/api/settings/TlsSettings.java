package org.nccl4j.api.settings;

import java.util.List;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.wire.tls.TlsFiles;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * Settings of the certificates with which ranks authenticate each other: set all three, on all
 * ranks, or none.
 */
public final class TlsSettings {
  public static final Setting<String> NCCL4J_TLS_CERT =
      Setting.text(
          "NCCL4J_TLS_CERT",
          "",
          "a PEM file",
          "The rank's certificate. With it the bootstrap's connections, data sockets and"
              + " InfiniBand's TCP connections use TLS; each side shows a certificate.");

  public static final Setting<String> NCCL4J_TLS_KEY =
      Setting.text(
          "NCCL4J_TLS_KEY",
          "",
          "a PEM file with a PRIVATE KEY",
          "The key of the rank's certificate, in PKCS #8 without a password.");

  public static final Setting<String> NCCL4J_TLS_CA =
      Setting.text(
          "NCCL4J_TLS_CA",
          "",
          "a PEM file",
          "The authorities that sign the other ranks' certificates.");

  public static final Setting<Boolean> NCCL4J_NET_TLS =
      Setting.flag(
          "NCCL4J_NET_TLS",
          true,
          "Sockets encrypt data where certificates are set (NCCL4J_TLS_CERT); InfiniBand and plug-ins"
              + " do not, and a warning says so unless this is 0. The same on all ranks.");

  static final List<Setting<?>> ALL =
      List.of(NCCL4J_TLS_CERT, NCCL4J_TLS_KEY, NCCL4J_TLS_CA, NCCL4J_NET_TLS);

  private TlsSettings() {}

  /**
   * The files that are set.
   *
   * @throws InvalidArgumentException if some of the settings are there and others are not
   */
  public static TlsFiles files(SettingValues settings) {
    TlsFiles files =
        new TlsFiles(
            settings.get(NCCL4J_TLS_CERT),
            settings.get(NCCL4J_TLS_KEY),
            settings.get(NCCL4J_TLS_CA));
    if (files.areIncomplete()) {
      throw new InvalidArgumentException(
          ErrorId.CERTIFICATE,
          "of NCCL4J_TLS_CERT=%s, NCCL4J_TLS_KEY=%s and NCCL4J_TLS_CA=%s some are not set"
              .formatted(files.certificate(), files.key(), files.authorities()),
          "set all three to PEM files, on all ranks, or none");
    }
    return files;
  }
}
