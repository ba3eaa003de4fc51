/** Ranks that other launchers start: Open MPI, and nccl run on several hosts. */
package org.nccl4j.it.launch;
