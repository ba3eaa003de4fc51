package org.nccl4j.device.shm;

/**
 * A file descriptor from another process, or from another mailbox of this one. Its receiver closes
 * it.
 *
 * @param fd the descriptor, of this process
 * @param key what the sender says that it is
 * @param processId the sender's process, as seen from here; 0 if it cannot be seen
 */
public record ReceivedFd(int fd, byte[] key, int processId) {}
