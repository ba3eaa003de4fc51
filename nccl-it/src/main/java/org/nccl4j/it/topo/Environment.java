package org.nccl4j.it.topo;

import java.util.Map;

/** The one place where the topology commands read the environment. */
final class Environment {
  private Environment() {}

  static Map<String, String> get() {
    return System.getenv();
  }
}
