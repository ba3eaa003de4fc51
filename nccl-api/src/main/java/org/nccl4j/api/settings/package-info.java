/**
 * The settings. Each is declared once, as a {@link org.nccl4j.api.spi.Setting} with its type,
 * default, range and a sentence, and has one parser. {@link org.nccl4j.topo.TopoSettings} has the
 * parsers of the settings that act on the topology. Engine and transports read values through
 * {@link org.nccl4j.api.spi.SettingValues}. Layer: above {@code spi} and {@code wire}, below
 * everything else in this module.
 */
package org.nccl4j.api.settings;
