/**
 * Files of commands: outputs and temporary folders. Layer: below all commands, knows none of them.
 */
package org.nccl4j.it.file;
