/**
 * Collective algorithms and sends and receives of the host device over connections, a file each.
 *
 * <p>Above the room {@code protocol}, with whose primitives they are written.
 */
package org.nccl4j.device.host.kernel.algorithm;
