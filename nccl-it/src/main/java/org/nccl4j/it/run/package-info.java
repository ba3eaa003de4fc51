/**
 * {@code nccl run}: starts the ranks of a program on this machine or on several, and sees them to
 * their end. Layer: a command, below {@code cli}; {@code perf} starts its processes with it.
 */
package org.nccl4j.it.run;
