/**
 * The functions of libibverbs, and of libc for its descriptors, as Java interfaces. Exported
 * because the stubs that jnr-ffi makes live in another module; not for users.
 */
package org.nccl4j.transport.net.ib.bind;
