/**
 * Tests over a real RDMA stack, Soft-RoCE in a User Mode Linux guest (src/test/rdma). Not part of
 * the ordinary build: {@code mvn verify -Prdma -Drdma.kernel=FILE}, where FILE is what
 * build-kernel.sh built.
 */
package org.nccl4j.it.rdma;
