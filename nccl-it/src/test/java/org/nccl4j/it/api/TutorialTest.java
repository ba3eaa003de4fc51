package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.ThrowingConsumer;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.device.Device;
import org.nccl4j.it.transport.Peer;
import org.nccl4j.testkit.TransportContract;

/** The programs of the tutorial compile, run, and print what is written there. */
class TutorialTest {
  /** An archive has it elsewhere. */
  private static final Path TUTORIAL =
      Path.of(System.getProperty("nccl4j.tutorial", "../docs/guides/tutorial"));

  private static final List<Integer> FOR_GPUS = List.of(8, 9);
  private static final Pattern NUMBER = Pattern.compile("([0-9]+)-.*\\.md");
  private static final Pattern PRINTS = Pattern.compile("// prints (.*)");

  @TempDir private static Path folder;

  /** Those that run everywhere. */
  @TestFactory
  List<DynamicTest> steps() throws IOException {
    return tests(List.of(1, 2, 3, 4, 5, 6, 7, 10, 11), TutorialTest::run);
  }

  @TestFactory
  List<DynamicTest> stepsForGpusCompile() throws IOException {
    return tests(FOR_GPUS, TutorialTest::compile);
  }

  @TestFactory
  @Tag("gpu")
  List<DynamicTest> stepsForGpus() throws IOException {
    return tests(FOR_GPUS, TutorialTest::run);
  }

  /** The tutorial's programs give the right results. */
  @TestFactory
  Stream<DynamicTest> theTransportKeepsItsContract() throws Exception {
    compile(TUTORIAL.resolve("11-writing-a-transport.md"));
    URL[] classes = {folder.resolve("classes").toUri().toURL()};
    Class<?> provider = new URLClassLoader(classes).loadClass("Step11$Provider");
    TransportContract contract =
        new TransportContract() {
          @Override
          protected TransportProvider provider() {
            try {
              return (TransportProvider) provider.getConstructor().newInstance();
            } catch (ReflectiveOperationException e) {
              throw new AssertionError(e);
            }
          }

          @Override
          protected boolean acrossProcesses() {
            return false;
          }

          @Override
          protected List<PeerInfo> unreachable() {
            PeerInfo near = peer(1);
            return List.of(
                new Peer(near).inProcess("another").build(),
                new Peer(near).withDevice(Device.Kind.CUDA, "0000:01:00.0").build());
          }

          /** Its regions are in the process's heap. */
          @Override
          protected boolean usesNoFiles() {
            return true;
          }
        };
    return contract.checks().stream().map(check -> dynamicTest(check.name(), check::run));
  }

  private static List<DynamicTest> tests(List<Integer> steps, ThrowingConsumer<Path> body)
      throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    try (Stream<Path> pages = Files.list(TUTORIAL)) {
      for (Path page : pages.sorted().toList()) {
        if (steps.contains(number(page))) {
          tests.add(dynamicTest(page.getFileName().toString(), () -> body.accept(page)));
        }
      }
    }
    assertEquals(steps.size(), tests.size());
    return tests;
  }

  /** A page's number; 0 if it has none. */
  private static int number(Path page) {
    Matcher number = NUMBER.matcher(page.getFileName().toString());
    return number.matches() ? Integer.parseInt(number.group(1)) : 0;
  }

  private static String program(Path page) throws IOException {
    String text = Files.readString(page);
    int begin = text.indexOf("```java") + "```java\n".length();
    return text.substring(begin, text.indexOf("```", begin));
  }

  private static Path source(Path page) throws IOException {
    return Files.writeString(folder.resolve("Step" + number(page) + ".java"), program(page));
  }

  private static void compile(Path page) throws IOException {
    StringWriter said = new StringWriter();
    PrintWriter out = new PrintWriter(said);
    String classes = folder.resolve("classes").toString();
    String[] options = {"-d", classes, "-cp", ChaosRank.classPath(), source(page).toString()};
    int status = ToolProvider.findFirst("javac").orElseThrow().run(out, out, options);
    assertEquals(0, status, said.toString());
  }

  private static Process stopped(Process process) {
    return process.destroyForcibly();
  }

  private static void run(Path page) throws Exception {
    // An archive's Java runtime has no compiler; its programs are among the tests.
    if (ToolProvider.findFirst("javac").isPresent()) {
      compile(page);
    }
    String program = "Step" + number(page);
    List<String> command = RankJvm.command(folder.resolve("classes"));
    command.addAll(List.of("-Dtutorial.source=" + program, program));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    // What it prints ends when it does, so it ends in any case.
    process.onExit().orTimeout(180, TimeUnit.SECONDS).exceptionally(late -> stopped(process));
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
    Matcher expected = PRINTS.matcher(program(page));
    assertTrue(expected.find(), page.toString());
    do {
      String line = expected.group(1).trim();
      assertTrue(output.lines().anyMatch(line::equals), line + " is not among:\n" + output);
    } while (expected.find());
  }
}
