package org.nccl4j.api.group;

import org.nccl4j.api.plan.Func;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/**
 * An operation that waits for its group's end.
 *
 * @param operator what reduces instead of op; null where op does
 */
record Task(
    RankQueue queue,
    Func func,
    DeviceMemory send,
    DeviceMemory recv,
    long count,
    DataType type,
    RedOp op,
    ReductionOperator operator,
    int root,
    DeviceStream stream) {}
