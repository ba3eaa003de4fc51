/**
 * {@code nccl perf}: options, the sweep over sizes, and how long each measurement runs. Layer: a
 * command, below {@code cli}. Gives orders to {@code perf.rank}, hands results to {@code
 * perf.report}, and asks {@code perf.peer} for references.
 */
package org.nccl4j.it.perf;
