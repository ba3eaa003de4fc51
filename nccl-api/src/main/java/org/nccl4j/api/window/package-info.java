/**
 * Windows: memory that all ranks of a communicator register together. Each rank of a team finds it
 * at the same offset of each other rank's stretch of a flat range. Layer: below the planner, above
 * the bootstrap. It uses devices through {@link org.nccl4j.device.symmetric}, and asks the CUDA
 * device for the reach of GPUs.
 *
 * <p>Registering is an exchange among all ranks. Each rank proposes its allocation. All ranks see
 * all proposals, so they decide alike: whether the proposals fit, whether the same allocations are
 * mapped already, and at which offset. The ranks of a team then map each other's allocations and
 * report the result to all ranks. So an error of one rank is an error of all, and nothing stays
 * mapped.
 */
package org.nccl4j.api.window;
