/**
 * {@code nccl plan}: the communication of a training step before the job runs. It lists the layouts
 * of a transformer over GPUs, the collectives of each, and their times as the planner of a
 * communicator predicts them ({@code org.nccl4j.api.init.costs}). Layer: command line; above the
 * engine.
 */
package org.nccl4j.it.plan;
