package org.nccl4j.it.cli;

import java.lang.module.ModuleDescriptor;
import picocli.CommandLine.IVersionProvider;

/** The version of nccl4j. */
public final class Version implements IVersionProvider {
  /** Called by picocli. */
  public Version() {}

  /** The version that the build gave the module; "development" when run from class files. */
  private static String text() {
    ModuleDescriptor descriptor = Version.class.getModule().getDescriptor();
    return descriptor == null ? "development" : descriptor.rawVersion().orElse("development");
  }

  @Override
  public String[] getVersion() {
    return new String[] {"nccl4j " + text(), "Java " + Runtime.version()};
  }
}
