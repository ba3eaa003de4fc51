/**
 * Paths between any two devices of a machine: the best path, the rules that forbid paths
 * (peer-to-peer, GPUDirect), detours, and near devices. Layer: above {@code system}, below {@code
 * search}, {@code connect} and {@code tuning}.
 */
package org.nccl4j.topo.path;
