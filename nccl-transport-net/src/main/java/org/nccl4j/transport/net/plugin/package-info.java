/** Network plug-ins for NCCL (libnccl-net-*.so) as one of the networks. */
package org.nccl4j.transport.net.plugin;
