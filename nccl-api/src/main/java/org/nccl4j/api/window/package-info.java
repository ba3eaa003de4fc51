/**
 * Windows: memory that all ranks of a communicator register together and then reach at the same
 * offset of each other's stretch of a flat range. Layer: below the planner, above the bootstrap; it
 * knows devices only through {@link org.nccl4j.device.symmetric}.
 *
 * <p>Registering is an exchange among all ranks: each proposes its allocation; all see all
 * proposals and so decide alike whether they fit, whether the same allocations are mapped already,
 * and at which offset; those of the team then map each other's, and tell all whether that went
 * well. So an error of one rank is an error of all, and leaves nothing behind.
 */
package org.nccl4j.api.window;
