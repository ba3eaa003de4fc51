package org.nccl4j.api.plan.cost;

import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** A cost model with its own figures for some algorithms, and another model's for all else. */
interface CostOverlay extends CostModel {
  /** The costs of all else. */
  CostModel base();

  @Override
  default List<Algorithm> algorithms(Operation operation) {
    return base().algorithms(operation);
  }

  @Override
  default String lacks(Operation operation) {
    return base().lacks(operation);
  }

  @Override
  default boolean has(Algorithm algorithm, Operation operation, DataType type, RedOp op) {
    return base().has(algorithm, operation, type, op);
  }

  @Override
  default boolean has(Algorithm algorithm, Protocol protocol) {
    return base().has(algorithm, protocol);
  }

  @Override
  default boolean suitsOneHost(Operation operation, Algorithm algorithm) {
    return base().suitsOneHost(operation, algorithm);
  }

  @Override
  default List<Protocol> protocols() {
    return base().protocols();
  }

  @Override
  default double messages(int nRanks, int others, Protocol protocol, long bytes) {
    return base().messages(nRanks, others, protocol, bytes);
  }

  @Override
  default String messageSource(Protocol protocol) {
    return base().messageSource(protocol);
  }

  @Override
  default int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    return base().channels(operation, choice, bytes);
  }

  @Override
  default int fewestChannels(Operation operation, AlgorithmChoice choice, long bytes) {
    return base().fewestChannels(operation, choice, bytes);
  }

  @Override
  default int chunkBytes(
      ConnectionLayout layout, Operation operation, AlgorithmChoice choice, long bytes) {
    return base().chunkBytes(layout, operation, choice, bytes);
  }

  @Override
  default Protocol smallSendProtocol() {
    return base().smallSendProtocol();
  }

  @Override
  default long smallSendBytes(Operation operation) {
    return base().smallSendBytes(operation);
  }

  @Override
  default long lineSendBytes(Operation operation) {
    return base().lineSendBytes(operation);
  }

  @Override
  default double bandwidth() {
    return base().bandwidth();
  }

  @Override
  default double linkGigabytes() {
    return base().linkGigabytes();
  }

  @Override
  default boolean comparesWindows() {
    return base().comparesWindows();
  }

  @Override
  default boolean makesSpaceAhead() {
    return base().makesSpaceAhead();
  }

  @Override
  default boolean isOfFewBlocks(Operation operation, Algorithm algorithm, Protocol protocol) {
    return base().isOfFewBlocks(operation, algorithm, protocol);
  }

  @Override
  default String source() {
    return base().source();
  }

  @Override
  default String windowSource() {
    return base().windowSource();
  }

  @Override
  default String source(Operation operation, Algorithm algorithm, Protocol protocol) {
    return base().source(operation, algorithm, protocol);
  }
}
