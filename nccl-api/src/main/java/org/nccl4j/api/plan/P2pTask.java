package org.nccl4j.api.plan;

import org.nccl4j.device.DeviceMemory;

/**
 * A send or receive as a user called it.
 *
 * @param sends whether it sends
 * @param peer the other rank
 * @param buffer the data, from its beginning
 * @param bytes how many
 */
public record P2pTask(boolean sends, int peer, DeviceMemory buffer, long bytes) {}
