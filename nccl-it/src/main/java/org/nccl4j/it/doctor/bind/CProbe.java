package org.nccl4j.it.doctor.bind;

/** Functions of libc. */
public interface CProbe {
  /** An anonymous file in memory; -1 if there is none. */
  int memfd_create(String name, int flags);

  /** Closes a file descriptor. */
  int close(int fd);
}
