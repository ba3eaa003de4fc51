/** Results, and how they are shown: the table, JSON, the page with plots, and progress. */
package org.nccl4j.it.perf.report;
