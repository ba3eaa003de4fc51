/**
 * The objects that run a communicator's operations: {@link org.nccl4j.api.init.engine.Engine} puts
 * planners, launcher and windows together; {@link org.nccl4j.api.init.engine.SharedResources} are
 * the connections, kernels and proxy that splits share; NVLS is set up and torn down here.
 *
 * <p>Layer: between {@link org.nccl4j.api.init.connect} and {@link org.nccl4j.api.init}.
 * Neighbours: {@link org.nccl4j.api.plan}, {@link org.nccl4j.api.launch}, {@link
 * org.nccl4j.api.window} and {@link org.nccl4j.api.proxy}, whose objects it makes.
 */
package org.nccl4j.api.init.engine;
