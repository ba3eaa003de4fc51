/**
 * The operating system's answers that need no native call: this process's number and cores, the
 * ends of others, the host's name, fields of files of /proc, random numbers, the reason why a file
 * cannot be used. Read from files, since a process's first communicator waits for the JDK's classes
 * of the same. Layer: below all other packages of the device; knows none of them.
 */
package org.nccl4j.device.os;
