package org.nccl4j.api.plan;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.P2pWork;

/**
 * A send or receive as a user called it.
 *
 * @param sends whether it sends
 * @param peer the other rank
 * @param buffer the data, from its beginning
 * @param bytes how many
 * @param offer as {@link P2pWork} has it
 */
public record P2pTask(
    boolean sends, int peer, DeviceMemory buffer, long bytes, P2pWork.Offer offer) {}
