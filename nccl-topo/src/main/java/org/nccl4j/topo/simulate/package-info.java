/**
 * A communicator of any size without the machines: what its rings and trees look like and how long
 * its operations would take. Layer: above {@code cluster}.
 */
package org.nccl4j.topo.simulate;
