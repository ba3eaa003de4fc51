package org.nccl4j.api.init;

import java.time.Duration;
import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.device.Device;

/**
 * What is known of a communicator before its ranks have met.
 *
 * @param name for messages and logs
 * @param device of this rank
 * @param initDeadline for the whole creation
 * @param operationDeadline for a wait in an operation
 * @param settings values by name
 */
public record InitRequest(
    String name,
    Device device,
    Duration initDeadline,
    Duration operationDeadline,
    Function<String, Optional<String>> settings) {
  String setting(String key) {
    return settings.apply(key).orElse("");
  }
}
