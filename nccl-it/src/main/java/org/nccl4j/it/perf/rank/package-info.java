/**
 * The ranks that are measured, as threads of this process or as processes of this machine, and the
 * orders that the coordinator gives them one at a time. Between orders a rank sleeps, so that it
 * takes no time from what is measured beside it.
 */
package org.nccl4j.it.perf.rank;
