package org.nccl4j.it.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.nccl4j.it.launch.Manifest.at;

import java.io.IOException;
import java.net.BindException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.IntUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.api.LaunchEnvironment;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.it.api.RankJvm;

/**
 * Reads the manifests of docs/guides/kubernetes.md, and starts their pods as processes with the
 * environment that Kubernetes would give them. No cluster looks at the manifests.
 */
@Timeout(600)
class KubernetesGuideTest {
  /** Read by {@link LaunchEnvironment}; no settings. */
  private static final Set<String> OF_LAUNCHERS = Set.of("NCCL4J_NRANKS", "NCCL4J_LOCAL_RANK");

  private static final int MOST_PORTS = 3;

  @TempDir private Path folder;

  static List<Manifest> manifests() throws IOException {
    List<Manifest> manifests = Manifest.ofPage();
    assertEquals(2, manifests.size());
    return manifests;
  }

  @ParameterizedTest
  @MethodSource("manifests")
  void allPodsRunAtOnceAndAreNumbered(Manifest manifest) {
    assertEquals("batch/v1", at(manifest.job(), "apiVersion"));
    assertEquals("Job", at(manifest.job(), "kind"));
    assertEquals("Indexed", at(manifest.job(), "spec completionMode"));
    assertEquals(manifest.pods(), at(manifest.job(), "spec parallelism"));
    assertEquals("Never", at(manifest.pod(), "restartPolicy"));
  }

  /** A pod of an indexed job is JOB-INDEX, in the domain of the headless service. */
  @ParameterizedTest
  @MethodSource("manifests")
  void theFirstPodHasTheNameOfTheMeetingPoint(Manifest manifest) {
    String job = (String) at(manifest.job(), "metadata name");
    String service = (String) at(manifest.service(), "metadata name");
    assertEquals("Service", at(manifest.service(), "kind"));
    assertEquals("None", at(manifest.service(), "spec clusterIP"));
    assertEquals(true, at(manifest.service(), "spec publishNotReadyAddresses"));
    assertEquals(Map.of("job-name", job), at(manifest.service(), "spec selector"));
    assertEquals(service, at(manifest.pod(), "subdomain"));
    String meeting = manifest.environment(0, "").get("NCCL_COMM_ID");
    assertTrue(meeting.matches(job + "-0\\." + service + ":\\d+"), meeting);
  }

  @ParameterizedTest
  @MethodSource("manifests")
  void sharedMemoryIsAVolumeWithinTheLimit(Manifest manifest) {
    assertEquals("/dev/shm", at(manifest.container(), "volumeMounts 0 mountPath"));
    assertEquals(
        at(manifest.container(), "volumeMounts 0 name"), at(manifest.pod(), "volumes 0 name"));
    assertEquals("Memory", at(manifest.pod(), "volumes 0 emptyDir medium"));
    long size = bytes(at(manifest.pod(), "volumes 0 emptyDir sizeLimit"));
    assertTrue(size < bytes(at(manifest.container(), "resources limits memory")));
  }

  private static long bytes(Object quantity) {
    String text = (String) quantity;
    assertTrue(text.matches("\\d+Gi"), text);
    return Long.parseLong(text.substring(0, text.length() - 2)) << 30;
  }

  @ParameterizedTest
  @MethodSource("manifests")
  void eachVariableIsRead(Manifest manifest) {
    Set<String> known = Settings.declared().stream().map(Setting::name).collect(Collectors.toSet());
    known.addAll(OF_LAUNCHERS);
    Set<String> unknown = manifest.ownVariables();
    unknown.removeAll(known);
    assertEquals(Set.of(), unknown);
  }

  @Test
  void aRankForEachPod() throws IOException {
    Manifest manifest = manifests().get(0);
    assertEquals(1, manifest.limit("nvidia.com/gpu"));
    for (int pod = 0; pod < manifest.pods(); pod++) {
      LaunchEnvironment place = LaunchEnvironment.of(manifest.environment(pod, "x")).orElseThrow();
      assertEquals("Kubernetes", place.launcher());
      assertEquals(pod, place.rank());
      assertEquals(manifest.pods(), place.nRanks());
      assertEquals(0, place.localRank());
    }
  }

  @Test
  void aPodForEachMachine() throws IOException {
    Manifest manifest = manifests().get(1);
    int gpus = manifest.limit("nvidia.com/gpu");
    Map<String, String> environment = manifest.environment(0, "x");
    assertEquals(Integer.toString(gpus), environment.get("GPUS"));
    assertEquals(Integer.toString(gpus * manifest.pods()), environment.get("NCCL4J_NRANKS"));
  }

  @Test
  void thePodsOfTheFirstManifestAllReduce() throws Exception {
    assertEquals(ranks(4, rank -> 0), run(manifests().get(0), Map.of()));
  }

  /** With two ranks for each pod, by the manifest's own shell command. */
  @Test
  void thePodsOfTheSecondManifestAllReduce() throws Exception {
    Map<String, String> changes = Map.of("GPUS", "2", "NCCL4J_NRANKS", "4");
    assertEquals(ranks(4, rank -> rank % 2), run(manifests().get(1), changes));
  }

  /**
   * One of its processes learns that the ranks disagree; the others are told. A rank that starts
   * only after rank 0 has failed tries to reach it until its deadline.
   */
  @Test
  void aPodWhoseRankFailsFails() throws Exception {
    Manifest manifest = manifests().get(1);
    List<Pod> pods =
        start(
            manifest,
            Map.of(
                "GPUS", "2",
                "NCCL4J_NRANKS", "4",
                "FAILING_RANK", "3",
                "NCCL4J_INIT_TIMEOUT", "10s"));
    pods.get(1).end(1);
    pods.get(0).end(1);
  }

  private static TreeSet<String> ranks(int n, IntUnaryOperator local) {
    return IntStream.range(0, n)
        .mapToObj(
            rank ->
                "rank %d of %d, local %d: %d"
                    .formatted(rank, n, local.applyAsInt(rank), (1 << n) - 1))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** A process in the place of a pod. */
  private record Pod(Process process, Path output) {
    /** Waits for its end; returns its ranks' lines. */
    Set<String> end(int status) throws Exception {
      try {
        assertTrue(process.waitFor(300, TimeUnit.SECONDS), "a pod does not end");
        assertEquals(status, Math.min(1, process.exitValue()), Files.readString(output));
        return Files.readAllLines(output).stream()
            .filter(line -> line.startsWith("rank "))
            .collect(Collectors.toSet());
      } finally {
        stop();
      }
    }

    void stop() {
      process.descendants().forEach(ProcessHandle::destroy);
      process.destroy();
    }
  }

  /** All pods' lines; they start again where another program has taken their port meanwhile. */
  private Set<String> run(Manifest manifest, Map<String, String> changes) throws Exception {
    for (int tries = 1; true; tries++) {
      List<Pod> pods = start(manifest, changes);
      try {
        Set<String> said = new TreeSet<>();
        for (Pod pod : pods) {
          said.addAll(pod.end(0));
        }
        return said;
      } catch (AssertionError e) {
        if (tries == MOST_PORTS || !e.getMessage().contains("EADDRINUSE")) {
          throw e;
        }
        System.out.println("the port of the pods is taken: " + e.getMessage());
      } finally {
        pods.forEach(Pod::stop);
      }
    }
  }

  /** Starts all pods of a manifest on this host, with other values for some variables. */
  private List<Pod> start(Manifest manifest, Map<String, String> changes) throws Exception {
    Path java = java();
    int port = freePort();
    List<Pod> pods = new ArrayList<>();
    for (int index = 0; index < manifest.pods(); index++) {
      Map<String, String> environment = new TreeMap<>(manifest.environment(index, "secret"));
      environment.putAll(changes);
      environment.put("NCCL_COMM_ID", "127.0.0.1:" + port);
      environment.put("NCCL_SOCKET_IFNAME", "lo");
      Path output = folder.resolve("pod-" + index);
      ProcessBuilder builder = new ProcessBuilder(manifest.command());
      if (builder.command().get(0).equals("java")) {
        builder.command(java.toString());
      }
      builder.environment().keySet().removeIf(name -> name.startsWith("NCCL"));
      builder.environment().putAll(environment);
      builder.environment().put("PATH", folder + ":" + builder.environment().get("PATH"));
      pods.add(
          new Pod(
              builder.redirectErrorStream(true).redirectOutput(output.toFile()).start(), output));
    }
    assertNotEquals(0, pods.size());
    return pods;
  }

  /** The command java, which runs {@link PodRank} whatever its arguments are. */
  private Path java() throws Exception {
    Path java = folder.resolve("java");
    List<String> command = new ArrayList<>(RankJvm.command());
    command.remove(RankJvm.PATIENT); // pods have the time that their environment gives them
    String script =
        """
        #!/bin/sh
        [ -z "$FAILING_RANK" ] || [ "$NCCL4J_RANK" != "$FAILING_RANK" ] || export NCCL4J_NRANKS=5
        exec %s %s
        """
            .formatted(String.join(" ", command), PodRank.class.getName());
    Files.writeString(java, script);
    return Files.setPosixFilePermissions(java, PosixFilePermissions.fromString("rwxr-xr-x"));
  }

  /** Below those that the system gives to any connection meanwhile. */
  private static int freePort() throws IOException {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(20_000, 32_000);
      try (ServerSocket socket = new ServerSocket(port)) {
        return socket.getLocalPort();
      } catch (BindException e) {
        // Another program has it.
      }
    }
  }
}
