/**
 * Shared memory of this machine: mappings, segments that other processes can map, the passing of
 * their file descriptors, and the limits that the kernel sets this process on both. Layer: below
 * the devices and the transports; needs the C library and nothing else.
 *
 * <p>A message from one {@link org.nccl4j.device.shm.FdMailbox} to another is one datagram with one
 * file descriptor and the sender's credentials:
 *
 * <pre>
 *   0   magic, "n4jf" (u32, big endian)
 *   4   version (u32, big endian), 1
 *   8   HMAC-SHA256 with the shared secret over bytes 0 to 7, the file name of the receiver's
 *       socket in UTF-8, and the key
 *   40  key, at most 64 bytes: what the file descriptor is
 * </pre>
 */
package org.nccl4j.device.shm;
