/**
 * The tasks of a barrier stage of Apache Spark as the ranks of a communicator. {@link
 * org.nccl4j.spark.BarrierStage} makes the stage in the driver, {@link
 * org.nccl4j.spark.BarrierRank} joins the communicator in a task. Uses the public API of {@code
 * org.nccl4j.api} and the Java API of Spark 3.5 or newer, so it works with each version of Scala
 * that Spark is made for. See docs/guides/spark.md.
 */
package org.nccl4j.spark;
