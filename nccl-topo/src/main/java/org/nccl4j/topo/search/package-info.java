/**
 * The search for channels: rings, trees, and heads for NVLS and CollNet, as fast as the machine
 * allows, found within a budget of steps so that the result does not depend on the clock. Layer:
 * above {@code path}; {@code connect} and {@code tuning} use its graphs.
 */
package org.nccl4j.topo.search;
