/**
 * Plans operations. The {@code Planner} is the entrance: it finds an operation's plan in the {@code
 * PlanCache}, or has the device prepare one with the algorithm, channels and chunks that {@code
 * org.nccl4j.api.plan.algorithm} chooses by the times that {@code org.nccl4j.api.plan.cost}
 * predicts. {@code P2pPlanner} does so for sends and receives, as {@code MessageChoices} chooses,
 * and {@code BufferWindows} finds the windows that an operation's buffers lie in. Layer: below the
 * group, above the launch.
 */
package org.nccl4j.api.plan;
