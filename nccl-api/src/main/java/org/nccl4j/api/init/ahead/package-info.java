/**
 * Tells creations of the calls that a process makes ahead of its program's. Layer: below the
 * creation; for libnccl.so.2.
 */
package org.nccl4j.api.init.ahead;
