/**
 * How any two devices of a machine reach each other: the best path, the rules that forbid some
 * (peer-to-peer, GPUDirect), the ways around, and which devices are near each other. Layer: above
 * {@code system}; {@code search}, {@code connect} and {@code tuning} ask it.
 */
package org.nccl4j.topo.path;
