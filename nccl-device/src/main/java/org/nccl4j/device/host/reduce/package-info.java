/** Element-wise arithmetic on host memory, for every type and operator. */
package org.nccl4j.device.host.reduce;
