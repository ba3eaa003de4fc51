/**
 * Decides how an operation is done: algorithm, protocol, channels, chunks. Layer: below the group,
 * above the launch.
 */
package org.nccl4j.api.plan;
