/** {@code nccl doctor}: what works on this machine, what does not, why, and how to mend it. */
package org.nccl4j.it.doctor;
