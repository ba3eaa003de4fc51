/**
 * The measured ranks, as threads of this process or as processes of this machine, and the orders
 * that the coordinator gives them one at a time. Between orders a rank sleeps, so that it takes no
 * time from the measurement beside it. Layer: below {@code perf}; above {@code perf.workload} and
 * {@code perf.check}.
 */
package org.nccl4j.it.perf.rank;
