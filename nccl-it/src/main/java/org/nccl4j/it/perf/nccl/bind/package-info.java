/**
 * The functions of libnccl that {@code perf --compare libnccl} measures, as jnr-ffi wants them.
 * Layer: below {@code perf.nccl}. Exported because the stubs that jnr-ffi makes live in another
 * module; not for users.
 */
package org.nccl4j.it.perf.nccl.bind;
