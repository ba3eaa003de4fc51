/**
 * The entry of the command line: picks the command, and turns what goes wrong into a message and an
 * exit status. Layer: top; above the packages of the commands. 0: all is well; 1: something failed
 * or a result was wrong; 2: the command line was.
 */
package org.nccl4j.it.cli;
