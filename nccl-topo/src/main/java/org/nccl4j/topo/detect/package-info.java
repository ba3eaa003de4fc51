/**
 * Detects a machine: PCI tree, NUMA nodes, CPUs and NICs from the kernel's files, GPUs and their
 * links from facts that the driver's layer passes in. Also works on a recorded copy of those files.
 * Layer: above {@code xml}; its result is the same element that a file gives.
 */
package org.nccl4j.topo.detect;
