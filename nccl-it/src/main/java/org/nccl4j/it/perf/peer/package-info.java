/**
 * Other libraries, measured on the same sizes in the same run. A peer sleeps while ours is
 * measured, and ours while the peer is measured. Layer: above {@code perf.rank}, below {@code
 * perf}.
 */
package org.nccl4j.it.perf.peer;
