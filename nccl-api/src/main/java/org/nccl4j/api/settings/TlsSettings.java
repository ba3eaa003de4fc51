package org.nccl4j.api.settings;

import java.util.List;

/** By which certificates the ranks know each other: all three, on all ranks, or none. */
public final class TlsSettings {
  public static final Setting<String> NCCL4J_TLS_CERT =
      Setting.text(
          "NCCL4J_TLS_CERT",
          "",
          "a PEM file",
          "The rank's certificate: the bootstrap's connections, and those over which InfiniBand's ends"
              + " meet, go by TLS, where each side shows one.");

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
          "The authorities by which other ranks' certificates have to be.");

  static final List<Setting<?>> ALL = List.of(NCCL4J_TLS_CERT, NCCL4J_TLS_KEY, NCCL4J_TLS_CA);

  private TlsSettings() {}
}
