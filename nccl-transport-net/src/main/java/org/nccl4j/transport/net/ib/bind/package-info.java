/**
 * The functions of libibverbs, and of libc for its descriptors, as Java interfaces. Layer: lowest
 * of {@code ib}; {@code ib.verbs} calls them.
 *
 * <p>Exported because the stubs that jnr-ffi makes live in another module; not for users.
 */
package org.nccl4j.transport.net.ib.bind;
