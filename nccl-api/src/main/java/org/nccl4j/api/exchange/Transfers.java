package org.nccl4j.api.exchange;

import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/**
 * Sends and receives of an exchange, of all bytes of a memory; nothing for none.
 *
 * @param dispatcher of this rank's operations
 */
record Transfers(OperationDispatcher dispatcher) {
  void send(DeviceMemory part, int peer, DeviceStream stream) {
    if (part.size() > 0) {
      dispatcher.call(shape(Operation.SEND, peer), part, null, part.size(), stream);
    }
  }

  void receive(DeviceMemory part, int peer, DeviceStream stream) {
    if (part.size() > 0) {
      dispatcher.call(shape(Operation.RECV, peer), null, part, part.size(), stream);
    }
  }

  private static long shape(Operation what, int peer) {
    return CallShape.of(what, DataType.UINT8, RedOp.SUM, peer);
  }
}
