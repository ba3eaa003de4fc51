package org.nccl4j.it.loader;

import java.io.File;
import java.lang.module.Configuration;
import java.lang.module.ModuleFinder;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Loads nccl-device as a module of a layer, first with one class loader and then with one for each
 * module, and prints for each whether the kernels were found. Nothing requires their module.
 */
public final class KernelLayers {
  private KernelLayers() {}

  /** The argument: the modules' path. */
  public static void main(String[] arguments) throws Exception {
    Path[] paths =
        Stream.of(arguments[0].split(File.pathSeparator)).map(Path::of).toArray(Path[]::new);
    ModuleLayer boot = ModuleLayer.boot();
    Configuration modules =
        Configuration.resolveAndBind(
            ModuleFinder.of(paths),
            List.of(boot.configuration()),
            ModuleFinder.of(),
            Set.of("org.nccl4j.device"));
    ClassLoader parent = ClassLoader.getPlatformClassLoader();
    found(ModuleLayer.defineModulesWithOneLoader(modules, List.of(boot), parent));
    found(ModuleLayer.defineModulesWithManyLoaders(modules, List.of(boot), parent));
  }

  private static void found(ModuleLayer.Controller layer) throws Exception {
    Module device = layer.layer().findModule("org.nccl4j.device").orElseThrow();
    Class<?> files = device.getClassLoader().loadClass("org.nccl4j.device.cuda.driver.KernelFiles");
    layer.addExports(device, files.getPackageName(), KernelLayers.class.getModule());
    Object found = files.getMethod("has", String.class).invoke(null, "build.properties");
    System.out.println(files.getModule().isNamed() + " " + found);
  }
}
