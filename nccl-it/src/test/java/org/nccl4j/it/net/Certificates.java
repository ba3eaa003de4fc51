package org.nccl4j.it.net;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** Certificates of the bootstrap's tests. */
final class Certificates {
  private static final Path FILES =
      Path.of("..", "nccl-api", "src", "test", "resources", "org/nccl4j/api/bootstrap/tls");

  private Certificates() {}

  /** Settings with those of a rank. */
  static Map<String, String> with(Map<String, String> settings) {
    return with(settings, "rank", "authority");
  }

  /**
   * Settings with certificates.
   *
   * @param who whose certificate: rank or stranger
   * @param authorities whom it trusts: authority, other-authority or both-authorities
   */
  static Map<String, String> with(Map<String, String> settings, String who, String authorities) {
    Map<String, String> all = new HashMap<>(settings);
    all.put("NCCL4J_TLS_CERT", FILES.resolve(who + ".pem").toString());
    all.put("NCCL4J_TLS_KEY", FILES.resolve(who + ".key").toString());
    all.put("NCCL4J_TLS_CA", FILES.resolve(authorities + ".pem").toString());
    return all;
  }
}
