/**
 * The native libraries' functions as Java interfaces, one for each library, and their loading. Each
 * interface has one class that calls it and checks its return codes. {@link
 * org.nccl4j.device.bind.Offheap} holds the structures that such functions read or fill. Layer:
 * below all other packages of the device; knows none of them.
 *
 * <p>Exported because the stubs that jnr-ffi makes live in another module; not for users.
 */
package org.nccl4j.device.bind;
