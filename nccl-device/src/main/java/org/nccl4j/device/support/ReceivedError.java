package org.nccl4j.device.support;

import org.nccl4j.device.CudaException;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/** Creates exceptions for errors that another rank sent. */
public final class ReceivedError {
  private ReceivedError() {}

  /** Returns an exception of the kind's class. See {@link NcclException} for the parameters. */
  public static NcclException of(ErrorId id, String problem, String remedy) {
    if (id == ErrorId.ORDER_DIFFERS) {
      return new OrderMismatchException(problem, remedy);
    }
    return switch (id.code()) {
      case UNHANDLED_CUDA_ERROR -> new CudaException(problem, remedy);
      case SYSTEM_ERROR -> new SystemErrorException(id, problem, remedy);
      case INTERNAL_ERROR -> new InternalErrorException(problem, remedy);
      case INVALID_ARGUMENT -> new InvalidArgumentException(id, problem, remedy);
      case INVALID_USAGE -> new InvalidUsageException(id, problem, remedy);
      case REMOTE_ERROR -> new RemoteException(id, problem, remedy);
      case TIMEOUT -> new TimeoutException(id, problem, remedy);
    };
  }
}
