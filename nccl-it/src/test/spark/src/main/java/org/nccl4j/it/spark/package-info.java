/** Ranks as the tasks of a barrier stage of Apache Spark; see docs/guides/spark.md. */
package org.nccl4j.it.spark;
