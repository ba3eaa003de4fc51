/**
 * Finds the transports and the networks. Layer: engine, above the SPI; the only place that uses
 * {@link java.util.ServiceLoader}.
 */
package org.nccl4j.api.registry;
