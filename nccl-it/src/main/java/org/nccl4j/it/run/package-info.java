/** {@code nccl run}: starts the ranks of a program on this machine and sees them to their end. */
package org.nccl4j.it.run;
