package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** The program that replaces invokedynamic instructions in the jars of an archive. */
class DynamicCallsTest {
  private static final Path PROGRAM = Path.of("src", "main", "dist", "DynamicCalls.java");
  private static final String SAMPLE = DynamicSample.class.getName();

  @TempDir private Path folder;

  @Test
  void lambdaExpressionsAndRecordsGiveWhatTheyGaveBefore() throws Exception {
    Path jar = folder.resolve("sample.jar");
    writeSample(jar);
    String before = run("-cp", jar.toString(), SAMPLE);
    assertTrue(makers(jar).contains("LambdaMetafactory.metafactory"));
    assertTrue(makers(jar).contains("ObjectMethods.bootstrap"));
    run("-cp", path(), PROGRAM.toString(), jar.toString());
    assertEquals(Set.of("LambdaMetafactory.altMetafactory"), makers(jar));
    assertEquals(before, run("-Xverify:all", "-cp", jar.toString(), SAMPLE));
  }

  @Test
  void aJarIsAlwaysRewrittenAlike() throws Exception {
    Path first = folder.resolve("first.jar");
    Path second = folder.resolve("second.jar");
    writeSample(first);
    Files.copy(first, second);
    run("-cp", path(), PROGRAM.toString(), first.toString(), second.toString());
    assertEquals(-1, Files.mismatch(first, second));
  }

  private static void writeSample(Path jar) throws IOException {
    String simple = DynamicSample.class.getSimpleName();
    Path classes = Path.of("target", "test-classes", "org", "nccl4j", "it", "cli");
    try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar));
        Stream<Path> all = Files.list(classes)) {
      for (Path file :
          all.filter(each -> each.getFileName().toString().matches(simple + "(\\$.*)?\\.class"))
              .sorted()
              .toList()) {
        out.putNextEntry(new JarEntry("org/nccl4j/it/cli/" + file.getFileName()));
        out.write(Files.readAllBytes(file));
      }
    }
  }

  /** This JVM's path, which has ASM. */
  private static String path() {
    return Stream.of("jdk.module.path", "java.class.path")
        .map(System::getProperty)
        .filter(Objects::nonNull)
        .collect(Collectors.joining(File.pathSeparator));
  }

  /** Runs Java to its good end; returns its output. */
  private static String run(String... arguments) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().remove("JAVA_TOOL_OPTIONS");
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    return output;
  }

  /** The methods that link the invokedynamic instructions of a jar's classes. */
  private static Set<String> makers(Path jar) throws IOException {
    Set<String> found = new TreeSet<>();
    try (JarFile file = new JarFile(jar.toFile())) {
      for (JarEntry entry : file.stream().toList()) {
        try (InputStream in = file.getInputStream(entry)) {
          new ClassReader(in).accept(new Makers(found), ClassReader.SKIP_DEBUG);
        }
      }
    }
    found.remove("StringConcatFactory.makeConcatWithConstants");
    return found;
  }

  private static final class Makers extends ClassVisitor {
    private final Set<String> found;

    private Makers(Set<String> found) {
      super(Opcodes.ASM9);
      this.found = found;
    }

    @Override
    public MethodVisitor visitMethod(
        int access, String name, String descriptor, String signature, String[] exceptions) {
      return new MethodVisitor(Opcodes.ASM9) {
        @Override
        public void visitInvokeDynamicInsn(
            String called, String type, Handle maker, Object... arguments) {
          String owner = maker.getOwner();
          found.add(owner.substring(owner.lastIndexOf('/') + 1) + "." + maker.getName());
        }
      };
    }
  }
}
