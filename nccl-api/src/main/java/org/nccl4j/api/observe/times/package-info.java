/**
 * The times at which streams reach points, such as the ends of operations, for those who are told
 * of operations. {@code StreamTimes} is the entrance, for one listener of one rank; {@code
 * DeviceTimes} is the thread that takes the times of a GPU for all of them. Layer: below {@code
 * org.nccl4j.api.observe}; uses devices alone.
 */
package org.nccl4j.api.observe.times;
