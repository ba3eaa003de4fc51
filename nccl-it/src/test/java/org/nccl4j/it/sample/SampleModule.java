package org.nccl4j.it.sample;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.module.Configuration;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;

/** Compiles the sample's module and loads it into a layer above this program's. */
final class SampleModule {
  private static final String NAME = "org.example.filetransport";
  private static final Path SOURCES = Path.of("src", "test", "sample-transport");
  private static final Path CLASSES = Path.of("target", "sample-transport");

  private SampleModule() {}

  /** Its classes, compiled with every warning an error. */
  static synchronized Path classes() {
    List<String> arguments = new ArrayList<>();
    arguments.addAll(
        List.of("--release", "17", "-d", CLASSES.toString(), "-Xlint:all,-module", "-Werror"));
    arguments.addAll(List.of("-p", System.getProperty("jdk.module.path")));
    try (Stream<Path> files = Files.walk(SOURCES)) {
      files.map(Path::toString).filter(file -> file.endsWith(".java")).forEach(arguments::add);
    } catch (IOException e) {
      throw new AssertionError("the sample's sources cannot be read", e);
    }
    StringWriter output = new StringWriter();
    PrintWriter printer = new PrintWriter(output);
    ToolProvider javac = ToolProvider.findFirst("javac").orElseThrow();
    if (javac.run(printer, printer, arguments.toArray(String[]::new)) != 0) {
      throw new AssertionError("the sample does not compile:\n" + output);
    }
    return CLASSES.toAbsolutePath();
  }

  /** A layer with the module in it. */
  static ModuleLayer layer() {
    ModuleLayer boot = ModuleLayer.boot();
    Configuration configuration =
        boot.configuration().resolve(ModuleFinder.of(classes()), ModuleFinder.of(), Set.of(NAME));
    return boot.defineModulesWithOneLoader(configuration, ClassLoader.getSystemClassLoader());
  }

  /** The class loader of the module in its layer. */
  static ClassLoader loader(ModuleLayer layer) {
    return layer.findLoader(NAME);
  }
}
