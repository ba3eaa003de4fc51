package org.nccl4j.it.plan;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DataType;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.it.topo.MachineFile;
import org.nccl4j.topo.xml.XmlElement;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code nccl plan}: the communication of a training step by layout, before the job runs. */
@Command(
    name = "plan",
    description = {
      "Estimates the communication of a transformer's training step for each layout of data,"
          + " tensor, context, expert and pipeline parallelism, the least time first.",
      "Times are those of nccl4j's planner over connections, as nccl topo simulate prints them.",
      "docs/guides/plan.md has the formulas, the assumptions and the model's error."
    },
    mixinStandardHelpOptions = true)
public final class PlanCommand implements Callable<Integer> {
  private static final int MOST_GPUS = 1 << 17;
  private static final int MOST_BATCH = 1 << 24;
  private static final double GIB = 1L << 30;

  /** Share of a GPU's memory that weights and activations may have. */
  private static final double USABLE = 0.9;

  /** Labels of the types that models are trained in. */
  static final class Types extends ArrayList<String> {
    private static final long serialVersionUID = 1L;

    /** Called by picocli. */
    Types() {
      super(trained().map(DataType::label).toList());
    }
  }

  /** Names of usual machines. */
  static final class Machines extends ArrayList<String> {
    private static final long serialVersionUID = 1L;

    /** Called by picocli. */
    Machines() {
      super(MachineFile.NAMES);
    }
  }

  @Spec private CommandSpec spec;

  @Mixin private ModelOptions model;

  @Option(
      names = "--machine",
      paramLabel = "MACHINE",
      required = true,
      description =
          "The topology of one machine: a file, as NCCL_TOPO_DUMP_FILE or nccl topo detect writes it,"
              + " or, if there is no such file, the name of a usual machine:"
              + " ${COMPLETION-CANDIDATES}.",
      completionCandidates = Machines.class)
  private Path machine;

  @Option(
      names = "--gpu-model",
      paramLabel = "NAME",
      defaultValue = "",
      description =
          "The GPUs' model as the driver names it, such as \"NVIDIA H200\", for times that were"
              + " measured on it (NVIDIA H200: groups of 2 to 4 GPUs of one machine, and"
              + " NCCL4J_COSTS_FILE); default: none.")
  private String gpuModel = "";

  @Option(
      names = "--gpus",
      paramLabel = "N",
      required = true,
      description = "GPUs of the job: some of one machine, or all of several.")
  private int gpus;

  @Option(
      names = "--batch",
      paramLabel = "N",
      defaultValue = "1024",
      description = "Sequences of a step over all GPUs, ${DEFAULT-VALUE} by default.")
  private int batch;

  @Option(
      names = "--micro-batch",
      paramLabel = "N",
      defaultValue = "1",
      description = "Sequences of a micro-batch, ${DEFAULT-VALUE} by default.")
  private int microBatch;

  @Option(
      names = "--dtype",
      paramLabel = "TYPE",
      defaultValue = "half",
      completionCandidates = Types.class,
      description =
          "Weights, gradients and activations: ${COMPLETION-CANDIDATES}; ${DEFAULT-VALUE} by"
              + " default. Types of equal size give equal plans.")
  private String type;

  @Option(
      names = "--memory",
      paramLabel = "GIB",
      description =
          "Memory of a GPU, of which 90 %% are used; default by compute capability: 16 up to 6.x,"
              + " 32 for 7.x, 80 for 8.x and 9.x, 180 from 10.0.")
  private Double memory;

  @Option(
      names = "--sharding",
      paramLabel = "KIND",
      split = ",",
      defaultValue = "ddp,zero1,fsdp",
      description = "Data parallelism to try: ${COMPLETION-CANDIDATES}; all by default.")
  private List<Sharding> shardings;

  @Option(
      names = "--context",
      paramLabel = "N",
      defaultValue = "1",
      description =
          "Most ranks that divide a sequence (context parallelism), ${DEFAULT-VALUE} by default.")
  private int context;

  @Option(
      names = "--expert",
      paramLabel = "N",
      description =
          "Most data-parallel ranks that divide the experts of a layer (expert parallelism);"
              + " default: as many as there are experts.")
  private Integer expert;

  @Option(
      names = "--dispatch-fp8",
      description =
          "Tokens and gradients go to the experts as fp8 with a float32 scale for each 128"
              + " elements; what comes back keeps --dtype.")
  private boolean dispatchFp8;

  @Option(
      names = "--sequence-parallel",
      description =
          "Tensor-parallel ranks divide activations by tokens between the matrices (sequence"
              + " parallelism): all-gathers and reduce-scatters replace all-reduces.")
  private boolean sequenceParallel;

  @Option(
      names = "--recompute",
      description =
          "A layer keeps only its input, and computes the rest again in the backward pass, with the"
              + " calls of its forward pass.")
  private boolean recompute;

  @Option(
      names = "--rows",
      paramLabel = "N",
      defaultValue = "20",
      description = "Layouts in the table and the picture, ${DEFAULT-VALUE} by default.")
  private int rows;

  @Option(
      names = "--details",
      paramLabel = "N",
      defaultValue = "1",
      description = "Layouts whose calls are printed, ${DEFAULT-VALUE} by default.")
  private int details;

  @Option(names = "--svg", paramLabel = "FILE", description = "Draw the table to this file.")
  private Path svg;

  @Option(names = "--json", description = "Print JSON, with the calls of every layout.")
  private boolean json;

  @Option(
      names = "--set",
      paramLabel = "NAME=VALUE",
      description = "A setting such as NCCL_ALGO=ring; comes before the environment.")
  private Map<String, String> set = new HashMap<>();

  /** Called by picocli. */
  public PlanCommand() {}

  @Override
  public Integer call() {
    PrintWriter out = spec.commandLine().getOut();
    PrintWriter err = spec.commandLine().getErr();
    Settings settings = Settings.ofProcess("--set", set);
    range("--gpus", gpus, MOST_GPUS);
    range("--batch", batch, MOST_BATCH);
    range("--micro-batch", microBatch, MOST_BATCH);
    range("--context", context, MOST_GPUS);
    range("--rows", rows, Integer.MAX_VALUE);
    check(details >= 0, "--details %d must be 0 or more".formatted(details));
    check(memory == null || memory > 0 && memory <= 1e6, "--memory must be above 0, in GiB");
    ModelShape shape = model.shape();
    checkExperts(shape);
    try {
      XmlElement system = MachineFile.read(machine);
      GroupCosts costs = new GroupCosts(system, settings, gpuModel);
      Job job = job(shape, costs);
      Layout.Most most =
          new Layout.Most(context, expert != null ? expert : shape.experts().number());
      Plan plan = Plan.of(job, Layout.of(job, shardings.stream().distinct().toList(), most), costs);
      if (plan.estimates().isEmpty() && !json) {
        return nothing(plan, err);
      }
      print(plan, out);
      return plan.estimates().isEmpty() ? nothing(plan, err) : 0;
    } catch (IOException e) {
      err.println(
          "%s: the picture %s cannot be written: %s"
              .formatted(spec.qualifiedName(), svg, IoErrorText.of(e)));
      err.println("  remedy: name a file in a folder that exists and can be written to");
    }
    err.flush();
    return 1;
  }

  private void checkExperts(ModelShape shape) {
    if (expert != null) {
      range("--expert", expert, MOST_GPUS);
    }
    check(
        shape.hasExperts() || expert == null && !dispatchFp8,
        "%s has no experts for %s: name a model with experts, or pass --experts"
            .formatted(shape.name(), expert != null ? "--expert" : "--dispatch-fp8"));
  }

  private static Stream<DataType> trained() {
    return Stream.of(DataType.values())
        .filter(DataType::isFloatingPoint)
        .filter(each -> each.bytes() == 2 || each.bytes() == DataType.FLOAT32.bytes());
  }

  private DataType type() {
    return trained()
        .filter(each -> each.label().equals(type))
        .findFirst()
        .orElseThrow(
            () ->
                new ParameterException(
                    spec.commandLine(),
                    "--dtype %s is unknown: use %s"
                        .formatted(type, String.join(", ", new Types()))));
  }

  private Job job(ModelShape shape, GroupCosts costs) {
    int each = costs.gpusPerMachine();
    check(
        gpus <= each || gpus % each == 0,
        "--gpus %d is not a multiple of the %d GPUs of %s: use %d or %d"
            .formatted(gpus, each, machine, gpus / each * each, (gpus / each + 1) * each));
    double gib = memory != null ? memory : memoryOf(costs.computeCapability());
    return new Job(
        shape,
        gpus,
        each,
        batch,
        microBatch,
        type(),
        sequenceParallel,
        dispatchFp8,
        recompute,
        USABLE * gib * GIB);
  }

  /** GiB of the usual model of a generation. */
  private static double memoryOf(int computeCapability) {
    if (computeCapability >= 100) {
      return 180;
    }
    return computeCapability >= 80 ? 80 : computeCapability >= 70 ? 32 : 16;
  }

  private void print(Plan plan, PrintWriter out) throws IOException {
    String name = MachineFile.label(machine);
    if (svg != null) {
      Files.writeString(svg, PlanDrawing.of(plan, name, rows));
    }
    if (json) {
      out.println(PlanJson.of(plan));
    } else {
      new PlanText(out).print(plan, name, rows, details);
    }
    out.flush();
  }

  private int nothing(Plan plan, PrintWriter err) {
    err.println(
        "%s: no layout of %s on %d GPUs can be used: %d need too much memory, %d cannot divide the batch"
            .formatted(
                spec.qualifiedName(),
                plan.job().model().name(),
                plan.job().gpus(),
                plan.tooLarge(),
                plan.undivided()));
    err.println("  remedy: " + remedy(plan));
    err.flush();
    return 1;
  }

  private String remedy(Plan plan) {
    List<String> remedies = new ArrayList<>();
    if (plan.undivided() > 0) {
      long step = (long) gpus * microBatch;
      long next = (batch + step - 1) / step * step;
      remedies.add(
          next > MOST_BATCH
              ? "pass a smaller --micro-batch"
              : "pass a --batch that is a multiple of --gpus times --micro-batch, such as " + next);
    }
    if (plan.tooLarge() > 0) {
      remedies.add("add GPUs");
      if (!recompute) {
        remedies.add("pass --recompute");
      }
      if (!shardings.contains(Sharding.fsdp)) {
        remedies.add("allow --sharding fsdp");
      }
      if (microBatch > 1) {
        remedies.add("pass a smaller --micro-batch");
      }
    }
    int last = remedies.size() - 1;
    return last < 1
        ? String.join("", remedies)
        : String.join(", ", remedies.subList(0, last)) + ", or " + remedies.get(last);
  }

  private void range(String option, int value, int most) {
    check(value >= 1 && value <= most, "%s %d must be 1 to %d".formatted(option, value, most));
  }

  private void check(boolean right, String why) {
    if (!right) {
      throw new ParameterException(spec.commandLine(), why);
    }
  }
}
