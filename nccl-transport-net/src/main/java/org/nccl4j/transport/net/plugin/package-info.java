/**
 * Network plug-ins for NCCL (libnccl-net-*.so) as one of the networks. Layer: beside {@code socket}
 * and {@code ib}, below the NET transport, which knows only the interfaces of {@code spi}.
 */
package org.nccl4j.transport.net.plugin;
