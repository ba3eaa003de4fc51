/**
 * Results, and their forms: the table, JSON, the page with plots, and progress. Layer: below {@code
 * perf}, beside {@code perf.rank}.
 */
package org.nccl4j.it.perf.report;
