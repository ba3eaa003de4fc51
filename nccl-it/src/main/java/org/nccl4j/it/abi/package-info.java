/**
 * The Java side of {@code libnccl.so.2}, NCCL's interface for programs in C and C++: handles, and
 * the calls that {@code nccl-it/src/main/c} makes through JNI. {@link org.nccl4j.it.abi.Entry} is
 * the entrance. Layer: top, beside the command line; above the API.
 */
package org.nccl4j.it.abi;
