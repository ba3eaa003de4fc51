/**
 * The functions of libnccl that {@code perf --compare libnccl} measures, as jnr-ffi wants them.
 * Exported, since the stubs that it makes live outside this module.
 */
package org.nccl4j.it.perf.nccl.bind;
