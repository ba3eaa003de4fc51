/** Output files of commands. Layer: below all commands, knows none of them. */
package org.nccl4j.it.file;
