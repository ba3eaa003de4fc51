/**
 * Finds the transports and chooses one for each pair of ranks. Layer: engine, above the SPI; the
 * only place that uses {@link java.util.ServiceLoader}.
 */
package org.nccl4j.api.registry;
