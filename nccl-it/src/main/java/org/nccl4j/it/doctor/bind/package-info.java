/**
 * The few native functions that the doctor calls to see whether a library answers. Layer: below
 * {@code doctor}. Exported because the stubs that jnr-ffi makes live in another module; not for
 * users.
 */
package org.nccl4j.it.doctor.bind;
