/** Ranks as the subtasks of an operator of Apache Flink; see docs/guides/flink.md. */
package org.nccl4j.it.flink;
