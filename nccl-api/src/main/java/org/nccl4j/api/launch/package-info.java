/**
 * Launches prepared kernels into streams, in one order for each communicator. Layer: below the
 * planner, above the kernels and the proxy.
 */
package org.nccl4j.api.launch;
