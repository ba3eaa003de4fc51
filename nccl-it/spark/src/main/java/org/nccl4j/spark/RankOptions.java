package org.nccl4j.spark;

import java.io.Serializable;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The device and the settings of the ranks of a barrier stage. Immutable; each {@code with} method
 * returns a changed copy. Spark sends it to the executors.
 */
public final class RankOptions implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Duration START_TIMEOUT = Duration.ofMinutes(5);

  private final String resource; // null for the host device
  private final Duration startTimeout;
  private final String name;
  private final HashMap<String, String> settings; // never changed
  private final Boolean splitShare; // null where the settings decide
  private final boolean shrinkShare;

  private RankOptions(String resource, Duration startTimeout, CommunicatorConfig config) {
    this.resource = resource;
    this.startTimeout = startTimeout;
    this.name = config.name();
    this.settings = new HashMap<>(config.settings());
    this.splitShare = config.splitShare().orElse(null);
    this.shrinkShare = config.shrinkShare();
  }

  /** Each rank on the GPU that Spark has given its task: the address of the resource "gpu". */
  public static RankOptions gpu() {
    return gpu("gpu");
  }

  /**
   * Each rank on the GPU that Spark has given its task, of a resource with another name. An address
   * is a number of a GPU as CUDA counts them, a PCI address or a {@link
   * org.nccl4j.device.cuda.CudaDevice#id}.
   *
   * @param resource as in spark.task.resource.NAME.amount
   */
  public static RankOptions gpu(String resource) {
    Arguments.notNull(resource, "name of the resource");
    return new RankOptions(resource, START_TIMEOUT, CommunicatorConfig.defaults());
  }

  /** Each rank on the host device, for data in the memory of the executors. */
  public static RankOptions host() {
    return new RankOptions(null, START_TIMEOUT, CommunicatorConfig.defaults());
  }

  /**
   * The longest time that a task waits until all tasks of the stage have come to the same call; 5
   * minutes by default. Timeouts of the creation and of operations are the configuration's.
   *
   * @throws InvalidArgumentException for less than a millisecond
   */
  public RankOptions withStartTimeout(Duration timeout) {
    if (Arguments.notNull(timeout, "start timeout").compareTo(Duration.ofMillis(1)) < 0) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "the start timeout is " + timeout,
          "pass a duration of a millisecond or more");
    }
    return new RankOptions(resource, timeout, config());
  }

  /**
   * The configuration of the communicator: timeouts and settings. The default name is that of the
   * stage.
   */
  public RankOptions withConfig(CommunicatorConfig config) {
    return new RankOptions(resource, startTimeout, Arguments.notNull(config, "configuration"));
  }

  /** The resource whose address is the rank's GPU; empty for the host device. */
  Optional<String> resource() {
    return Optional.ofNullable(resource);
  }

  Duration startTimeout() {
    return startTimeout;
  }

  CommunicatorConfig config() {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withName(name).withShrinkShare(shrinkShare);
    if (splitShare != null) {
      config = config.withSplitShare(splitShare);
    }
    for (Map.Entry<String, String> setting : settings.entrySet()) {
      config = config.with(setting.getKey(), setting.getValue());
    }
    return config;
  }

  @Override
  public String toString() {
    return "RankOptions[device=%s, startTimeout=%s, config=%s]"
        .formatted(resource == null ? "host" : resource, startTimeout, config());
  }
}
