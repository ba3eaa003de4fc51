/**
 * The proxy thread, which moves connections' data on the processor while kernels run, for
 * transports that need it. Layer: beside the kernels, above the SPI.
 */
package org.nccl4j.api.proxy;
