package org.nccl4j.it.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;

/** A master, workers and executors as processes of this machine. */
final class Cluster {
  private Cluster() {}

  /**
   * Settings of an application in a cluster with cores for all its ranks.
   *
   * @param master such as local-cluster[workers,cores,MiB]
   */
  static SparkConf settings(String master, int ranks) throws IOException {
    return new SparkConf()
        .setAppName("nccl4j")
        .setMaster(master)
        .set("spark.executor.memory", "512m")
        // The context is made when all executors are there.
        .set("spark.cores.max", Integer.toString(ranks))
        .set("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .set("spark.scheduler.maxRegisteredResourcesWaitingTime", "200s")
        .set("spark.ui.enabled", "false")
        .set("spark.driver.host", "127.0.0.1")
        .set("spark.sql.shuffle.partitions", "3")
        // A stage that does not fit fails within seconds instead of 10 minutes.
        .set("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
        .set("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", "5")
        .set("spark.jars", jars())
        .set("spark.executor.extraJavaOptions", nativeAccess())
        .set("spark.executorEnv.NCCL_SOCKET_IFNAME", "lo");
  }

  /**
   * As --jars of spark-submit: the class loader of executors has them, their class path has not.
   */
  private static String jars() throws IOException {
    try (Stream<Path> files = Files.list(Path.of(System.getProperty("nccl4j.spark.application")))) {
      return Stream.concat(
              Stream.of(System.getProperty("nccl4j.spark.jars")), files.map(Path::toString))
          .collect(Collectors.joining(","));
    }
  }

  private static String nativeAccess() {
    return Runtime.version().feature() < 24 ? "" : "--enable-native-access=ALL-UNNAMED";
  }

  /** The messages of an error and of its causes, with those of executors. */
  static String messages(Throwable error) {
    StringBuilder messages = new StringBuilder();
    for (Throwable each = error; each != null; each = each.getCause()) {
      messages.append(each.getMessage()).append('\n');
    }
    return messages.toString();
  }
}
