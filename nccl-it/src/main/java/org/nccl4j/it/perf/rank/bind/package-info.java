/**
 * The native function that binds a rank to a core. Layer: below {@code perf.rank}. Exported because
 * the stubs that jnr-ffi makes live in another module; not for users.
 */
package org.nccl4j.it.perf.rank.bind;
