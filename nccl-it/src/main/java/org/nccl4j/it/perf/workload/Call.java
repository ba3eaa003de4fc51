package org.nccl4j.it.perf.workload;

import org.nccl4j.api.Communicator;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Everything that an operation is made from.
 *
 * @param communicator this rank's
 * @param stream where to launch
 * @param place this rank's place
 * @param layout its buffer sizes
 * @param buffers its memory
 * @param op how elements are combined, for workloads that do
 * @param inPlace whether send and receive buffer share memory
 */
public record Call(
    Communicator communicator,
    DeviceStream stream,
    Place place,
    Layout layout,
    Buffers buffers,
    RedOp op,
    boolean inPlace) {}
