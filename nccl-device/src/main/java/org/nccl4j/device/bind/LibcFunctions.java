package org.nccl4j.device.bind;

/**
 * The C library's functions, by their own names; see section 2 of the manual for each. What C calls
 * a pointer is an address here.
 */
@SetsErrno
public interface LibcFunctions {
  long mmap(long address, long bytes, int protection, int flags, int fd, long offset);

  long process_vm_readv(int process, long to, long tos, long from, long froms, long flags);

  int munmap(long address, long bytes);

  int mprotect(long address, long bytes, int protection);

  int madvise(long address, long bytes, int advice);

  int memfd_create(String name, int flags);

  int open(String path, int flags, int mode);

  int close(int fd);

  int ftruncate(int fd, long bytes);

  int fallocate(int fd, int mode, long offset, long bytes);

  long lseek(int fd, long offset, int whence);

  int fcntl(int fd, int command, int argument);

  int socket(int domain, int type, int protocol);

  int setsockopt(int fd, int level, int option, long value, int bytes);

  int bind(int fd, long address, int bytes);

  int connect(int fd, long address, int bytes);

  long sendmsg(int fd, long message, int flags);

  long recvmsg(int fd, long message, int flags);

  int getuid();

  String strerror(int errno);
}
