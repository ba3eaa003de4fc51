import ai.djl.Model;
import ai.djl.engine.Engine;
import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.Shape;
import ai.djl.nn.Activation;
import ai.djl.nn.Parameter;
import ai.djl.nn.SequentialBlock;
import ai.djl.nn.core.Linear;
import ai.djl.training.DefaultTrainingConfig;
import ai.djl.training.GradientCollector;
import ai.djl.training.Trainer;
import ai.djl.training.loss.Loss;
import ai.djl.training.optimizer.Optimizer;
import ai.djl.training.tracker.Tracker;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Trains a small network with PyTorch's engine in two processes. Each takes half of every batch.
 * The gradients are reduced in PyTorch's own memory. The losses equal those of one process with the
 * whole batch within {@link #TOLERANCE}: the mean of the means of two halves is the whole mean.
 */
public final class Training {
  private static final int RANKS = 2;
  private static final int BATCH = 128;
  private static final int FEATURES = 8;
  private static final int STEPS = 100;

  /** The largest difference of two losses, relative to the larger one: sums differ in order. */
  private static final double TOLERANCE = 1e-5;

  private static final long MOST_SECONDS = 120;

  private Training() {}

  /** Without arguments, starts the other rank; else the rank and the unique id. */
  public static void main(String[] arguments) throws Exception {
    boolean first = arguments.length == 0;
    int rank = first ? 0 : Integer.parseInt(arguments[0]);
    UniqueId id = first ? UniqueId.create() : UniqueId.parse(arguments[1]);
    Process other = first ? start(1, id) : null;
    try {
      double[] losses;
      try (Communicator communicator =
              Communicator.initRank(RANKS, id, rank, Devices.host());
          DeviceStream stream = Devices.host().createStream()) {
        losses = train(new Ranks(communicator, stream), rank, RANKS);
      }
      if (first) {
        if (!other.waitFor(MOST_SECONDS, TimeUnit.SECONDS) || other.exitValue() != 0) {
          throw new AssertionError("rank 1: " + other);
        }
        check(losses);
      }
    } finally {
      if (first) {
        other.destroyForcibly();
      }
    }
  }

  private static void check(double[] losses) {
    double[] whole = train(null, 0, 1);
    double[] half = train(null, 0, RANKS);
    double difference = difference(losses, whole);
    if (!(difference <= TOLERANCE)) {
      throw new AssertionError("two ranks' losses differ from one's by " + difference);
    }
    if (!(difference(half, whole) > 100 * TOLERANCE)) {
      throw new AssertionError("half of the data gives the same losses: nothing is compared");
    }
    if (!(losses[STEPS - 1] < losses[0] / 2)) {
      throw new AssertionError("the network has not learned: " + losses[STEPS - 1]);
    }
    System.out.printf(
        "DJL: loss %.6f to %.6f in %d steps of two ranks, %.6f in one process; difference %.1e%n",
        losses[0], losses[STEPS - 1], STEPS, whole[STEPS - 1], difference);
  }

  /** The losses of all steps, each the mean over the ranks. Without ranks, nothing is reduced. */
  private static double[] train(Ranks ranks, int part, int parts) {
    Engine.getEngine("PyTorch").setRandomSeed(1 + part); // other weights on each rank, at first
    DefaultTrainingConfig config =
        new DefaultTrainingConfig(Loss.l2Loss())
            .optDevices(new ai.djl.Device[] {ai.djl.Device.cpu()})
            .optOptimizer(Optimizer.sgd().setLearningRateTracker(Tracker.fixed(0.2f)).build());
    try (Model model = Model.newInstance("network", ai.djl.Device.cpu())) {
      model.setBlock(
          new SequentialBlock()
              .add(Linear.builder().setUnits(32).build())
              .add(Activation::tanh)
              .add(Linear.builder().setUnits(1).build()));
      try (Trainer trainer = model.newTrainer(config)) {
        trainer.initialize(new Shape(BATCH / parts, FEATURES));
        List<NDArray> weights =
            model.getBlock().getParameters().values().stream().map(Parameter::getArray).toList();
        if (ranks != null) {
          ranks.broadcast(weights);
        }
        Random random = new Random(1);
        double[] losses = new double[STEPS];
        for (int step = 0; step < STEPS; step++) {
          try (NDManager manager = trainer.getManager().newSubManager()) {
            losses[step] = step(ranks, trainer, weights, new Batch(manager, random, part, parts));
          }
        }
        return losses;
      }
    }
  }

  private static double step(Ranks ranks, Trainer trainer, List<NDArray> weights, Batch batch) {
    float loss;
    try (GradientCollector collector = trainer.newGradientCollector()) {
      NDList predicted = trainer.forward(new NDList(batch.x));
      NDArray value = trainer.getLoss().evaluate(new NDList(batch.y), predicted);
      collector.backward(value);
      loss = value.getFloat();
    }
    double mean = loss;
    if (ranks != null) {
      mean = ranks.mean(weights.stream().map(NDArray::getGradient).toList(), loss);
    }
    trainer.step();
    return mean;
  }

  private static double difference(double[] some, double[] others) {
    double most = 0;
    for (int i = 0; i < STEPS; i++) {
      double larger = Math.max(Math.abs(some[i]), Math.abs(others[i]));
      most = Math.max(most, Math.abs(some[i] - others[i]) / larger);
    }
    return most;
  }

  private static Process start(int rank, UniqueId id) throws Exception {
    return new ProcessBuilder(
            ProcessHandle.current().info().command().orElseThrow(),
            "-cp",
            System.getProperty("java.class.path"),
            Training.class.getName(),
            Integer.toString(rank),
            id.toString())
        .inheritIO()
        .start();
  }

  /** This rank's part of a batch: a sine of random numbers. */
  private static final class Batch {
    private final NDArray x;
    private final NDArray y;

    Batch(NDManager manager, Random random, int part, int parts) {
      int rows = BATCH / parts;
      float[] inputs = new float[rows * FEATURES];
      float[] outputs = new float[rows];
      for (int row = 0; row < BATCH; row++) {
        int mine = row - part * rows;
        float sum = 0;
        for (int i = 0; i < FEATURES; i++) {
          float input = random.nextFloat() - 0.5f;
          sum += input;
          if (mine >= 0 && mine < rows) {
            inputs[mine * FEATURES + i] = input;
          }
        }
        if (mine >= 0 && mine < rows) {
          outputs[mine] = (float) Math.sin(sum);
        }
      }
      x = manager.create(inputs, new Shape(rows, FEATURES));
      y = manager.create(outputs, new Shape(rows, 1));
    }
  }

  /** The exchanges among the ranks, without a copy: true asks for the tensor's own memory. */
  private record Ranks(Communicator communicator, DeviceStream stream) {
    void broadcast(List<NDArray> weights) {
      Group.run(
          () -> {
            for (NDArray each : weights) {
              DeviceMemory memory = Devices.wrap(each.toByteBuffer(true));
              communicator.broadcast(memory, memory, each.size(), DataType.FLOAT32, 0, stream);
            }
          });
      stream.synchronize();
    }

    /** The mean loss; the gradients become their means in place. */
    double mean(List<NDArray> gradients, float loss) {
      ByteBuffer mean = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder());
      mean.putFloat(0, loss);
      Group.run(
          () -> {
            reduce(Devices.wrap(mean), 1);
            for (NDArray each : gradients) {
              reduce(Devices.wrap(each.toByteBuffer(true)), each.size());
            }
          });
      stream.synchronize(); // before the optimizer reads the gradients
      return mean.getFloat(0);
    }

    private void reduce(DeviceMemory memory, long count) {
      communicator.allReduce(memory, memory, count, DataType.FLOAT32, RedOp.AVG, stream);
    }
  }
}
