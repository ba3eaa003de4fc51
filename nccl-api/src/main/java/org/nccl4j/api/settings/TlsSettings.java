package org.nccl4j.api.settings;

import java.util.List;

/** By which certificates the ranks know each other: all three, on all ranks, or none. */
public final class TlsSettings {
  public static final Setting<String> NCCL4J_TLS_CERT =
      Setting.text(
          "NCCL4J_TLS_CERT",
          "",
          "a PEM file",
          "The rank's certificate. With it the bootstrap's connections and InfiniBand's TCP"
              + " connections use TLS; each side shows a certificate.");

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

  static final List<Setting<?>> ALL = List.of(NCCL4J_TLS_CERT, NCCL4J_TLS_KEY, NCCL4J_TLS_CA);

  private TlsSettings() {}
}
