/**
 * Chooses algorithm, protocol, channels and chunks of an operation. Layer: below the group, above
 * the launch.
 */
package org.nccl4j.api.plan;
