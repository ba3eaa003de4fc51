package org.nccl4j.transport.net.ib.bind;

/**
 * The functions of the C library that verbs need; see section 2 of the manual for each. Called only
 * by the class Descriptors.
 */
public interface DescriptorFunctions {
  int poll(long descriptors, long count, int milliseconds);

  int fcntl(int descriptor, int command, int argument);

  int eventfd(int initial, int flags);

  long write(int descriptor, long bytes, long count);

  String strerror(int error);
}
