package org.nccl4j.it.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.init.costs.ClusterChoices;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.it.cli.Main;
import org.nccl4j.it.plan.Traffic.Axis;
import org.nccl4j.it.topo.MachineFile;
import org.nccl4j.it.topo.ModelledNetwork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.PeerStatus;
import org.nccl4j.topo.xml.TopologyXml;
import org.nccl4j.topo.xml.XmlElement;

/** {@code nccl plan} prints what its formulas and the topology's cost model say. */
class PlanTest {
  /** A DGX H100. */
  private static final Path MACHINE =
      Path.of("..", "nccl-topo/src/test/resources/org/nccl4j/topo/machines/dgx-h100.xml");

  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  @TempDir private Path directory;

  private int run(String... arguments) {
    return Main.run(new PrintWriter(out), new PrintWriter(err), arguments);
  }

  private static String[] words(String line) {
    return ("plan --machine " + MACHINE + " " + line).split(" ");
  }

  /** A change of these figures is a change of the cost model or of the formulas. */
  @Test
  void aTableIsAsExpected() throws IOException {
    assertEquals(
        0, run(words("--model gpt-7b --gpus 32 --batch 64 --rows 6 --recompute")), err.toString());
    try (InputStream in = PlanTest.class.getResourceAsStream("gpt-7b-32.txt")) {
      String golden = new String(in.readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(golden, out.toString().replace(System.lineSeparator(), "\n"));
      String guide = Files.readString(Path.of("../docs/guides/plan.md"));
      String shown = golden.lines().limit(7).collect(Collectors.joining("\n"));
      assertTrue(guide.contains(shown), "docs/guides/plan.md lacks " + shown);
      String command = "nccl plan --model gpt-7b --gpus 32 --batch 64 --recompute --machine";
      assertTrue(guide.contains(command), "docs/guides/plan.md lacks " + command);
    }
  }

  @Test
  void oneGpuHasNoCommunication() throws IOException {
    String line = "--json --gpus 1 --layers 4 --hidden 256 --heads 4 --batch 2";
    assertEquals(0, run(words(line)), err.toString());
    int layouts = 0;
    try (JsonParser json = new JsonFactory().createParser(out.toString())) {
      for (JsonToken token = json.nextToken(); token != null; token = json.nextToken()) {
        if (token == JsonToken.FIELD_NAME && json.currentName().equals("totalMs")) {
          json.nextToken();
          assertEquals(0, json.getDoubleValue());
          layouts++;
        }
      }
    }
    assertEquals(1, layouts);
  }

  @Test
  void thePictureHasABarForEachLayout() throws IOException {
    Path svg = directory.resolve("plan.svg");
    String line = "--model gpt-7b --gpus 16 --batch 32 --recompute --rows 5 --svg " + svg;
    assertEquals(0, run(words(line)), err.toString());
    String text = Files.readString(svg);
    assertTrue(text.startsWith("<svg") && text.endsWith("</svg>\n"), text);
    assertEquals(5, text.split(", pipeline ", -1).length - 1);
    // One in the legend, and one for each layout with more than one stage.
    assertEquals(6, text.split("class=\"pipeline\"", -1).length - 1, text);
  }

  /** A mixture of experts has a column and a colour more, which others do not have. */
  @Test
  void aModelWithExpertsHasAColumnForThem() throws IOException {
    Path svg = directory.resolve("plan.svg");
    String line = "--model mixtral-8x7b --gpus 32 --batch 64 --recompute --sequence 4096";
    String shown = " --sharding ddp --rows 5 --details 3 --svg " + svg;
    assertEquals(0, run(words(line + shown)), err.toString());
    try (InputStream in = PlanTest.class.getResourceAsStream("mixtral-8x7b-32.txt")) {
      String golden = new String(in.readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(golden, out.toString().replace(System.lineSeparator(), "\n"));
    }
    String picture = Files.readString(svg);
    assertTrue(picture.contains("class=\"expert\""), picture);
    assertTrue(picture.contains(", expert 8, data "), picture);
    String small = " --json --gpus 2 --batch 2 --memory 1000 --sharding ddp --svg " + svg;
    out.getBuffer().setLength(0);
    assertEquals(0, run(words("--model mixtral-8x7b" + small)), err.toString());
    assertTrue(out.toString().contains("\"expert\":2,"), out.toString());
    assertTrue(out.toString().contains("\"operation\":\"Dispatch\""), out.toString());
    out.getBuffer().setLength(0);
    assertEquals(0, run(words("--model gpt-7b" + small)), err.toString());
    assertFalse(out.toString().contains("expert"), out.toString());
    assertFalse(Files.readString(svg).contains("expert"));
  }

  /** Stages with unlike layers: the slower one counts. */
  @Test
  void aModelWithSharedExpertsAndDenseLayersHasAPlan() {
    String line = "--model deepseek-v2 --gpus 160 --batch 320 --recompute --sharding fsdp";
    assertEquals(0, run(words(line + " --rows 1 --details 0")), err.toString());
    String heading =
        "deepseek-v2: 235.74 billion parameters (21.38 of a token, with 6 of 160 experts and 2"
            + " shared), 60 layers of 5120";
    assertTrue(out.toString().startsWith(heading), out.toString());
    out.getBuffer().setLength(0);
    String small = "--layers 4 --hidden 256 --heads 4 --gpus 4 --batch 4 --json --sharding ddp";
    String latent =
        " --kv-lora-rank 64 --qk-nope-head-dim 32 --qk-rope-head-dim 16 --v-head-dim 32";
    String experts =
        " --ffn 65536 --experts 4 --expert-ffn 16 --shared-experts 1 --dense-layers 2 --expert 1";
    assertEquals(0, run(words(small + latent + experts)), err.toString());
    // Of two stages with two replicas each, the first has the wide networks.
    long attention = 256 * 4 * 48 + 256 * 80 + 64 + 64 * 4 * 64 + 4 * 32 * 256 + 2 * 256;
    long routed = attention + 4 * 256 + 2 * 256 * 16;
    String data =
        "\"operation\":\"AllReduce\",\"ranks\":2,\"first\":0,\"stride\":1,\"bytes\":%d,\"calls\":2,";
    assertTrue(
        out.toString().contains(data.formatted(2 * (attention + 2 * 256 * 65_536))),
        out.toString());
    assertFalse(out.toString().contains(data.formatted(2 * routed)), out.toString());
  }

  /** Of 61 layers eight stages have 7 or 8; the last has the output matrix, and 7. */
  @Test
  void layersThatStagesDoNotDivideAreShared() throws IOException {
    Path svg = directory.resolve("plan.svg");
    String line = "--model gpt-7b --layers 61 --gpus 8 --batch 8 --sharding ddp --memory 1000";
    assertEquals(0, run(words(line + " --rows 99 --details 99 --svg " + svg)), err.toString());
    String row = "     1       1      1        8      7-8 ddp ";
    String shown =
        out.toString().lines().filter(each -> each.startsWith(row)).findFirst().orElseThrow();
    // Eight micro-batches of 61 layers on 8 stages, in the time of 15 of 8 layers.
    assertTrue(shown.endsWith(" %.1f".formatted(100 * (1 - 8 * 61 / (15 * 64.0)))), shown);
    assertTrue(out.toString().contains("data 1, pipeline 8 (7-8 layers), ddp"), out.toString());
    assertTrue(Files.readString(svg).contains("pipeline 8 (7-8 layers), ddp"));
    out.getBuffer().setLength(0);
    assertEquals(0, run(words(line.replace("61", "64") + " --rows 99")), err.toString());
    assertFalse(out.toString().contains("7-8"), out.toString());
    out.getBuffer().setLength(0);
    assertEquals(0, run(words(line + " --json")), err.toString());
    assertTrue(
        out.toString().contains("\"pipeline\":8,\"leastLayers\":7,\"mostLayers\":8"),
        out.toString());
  }

  @Test
  void layoutsThatDoNotFitAreCounted() {
    String line = "--model llama-3-70b --gpus 32 --batch 64 --recompute --rows 1 --details 0";
    assertEquals(0, run(words(line)), err.toString());
    assertTrue(out.toString().contains("left out, since too large for a GPU: "), out.toString());
    assertEquals(1, run(words(line + " --memory 8")));
    assertTrue(
        err.toString().contains("nccl plan: no layout of llama-3-70b on 32 GPUs"), err.toString());
    assertTrue(err.toString().contains("remedy: add GPUs\n"), err.toString());
  }

  /** The remedies are those that are not in force already. */
  @Test
  void whereNothingFitsOnlyTheRemedyIsPrinted() {
    assertEquals(1, run(words("--model gpt-7b --layers 6 --gpus 7")));
    assertEquals("", out.toString());
    assertTrue(
        err.toString().contains("multiple of --gpus times --micro-batch, such as 1029"),
        err.toString());
    err.getBuffer().setLength(0);
    assertEquals(1, run(words("--model gpt-175b --gpus 8 --micro-batch 2 --sharding ddp,zero1")));
    assertEquals("", out.toString());
    assertTrue(
        err.toString()
            .contains(
                "remedy: add GPUs, pass --recompute, allow --sharding fsdp, or pass a smaller"),
        err.toString());
  }

  private static GroupCosts costs(String speed) {
    return new GroupCosts(
        TopologyXml.parseSystem("test", speed), Settings.ofProcess("test", Map.of()), "");
  }

  /** A group of all GPUs is a communicator over such machines, for the planner too. */
  @ParameterizedTest
  @ValueSource(strings = {"IB", "Socket"})
  void groupsGetWhatThePlannerChooses(String network) throws IOException {
    Settings settings = Settings.ofProcess("test", Map.of("NCCL_NET", network));
    XmlElement system = TopologyXml.parseSystem("test", Files.readString(MACHINE));
    GroupCosts costs = new GroupCosts(system, settings, "");
    for (int machines : new int[] {1, 2, 5}) {
      int ranks = 8 * machines;
      Cluster cluster =
          Cluster.of(
              system,
              machines,
              ClusterChoices.searching(
                  new ClusterOptions(settings.topology(), PeerStatus.ALLOWED, false)));
      List<List<Integer>> hosts =
          IntStream.range(0, machines)
              .mapToObj(host -> IntStream.range(8 * host, 8 * host + 8).boxed().toList())
              .toList();
      ClusterChoices planner =
          ClusterChoices.of(
              settings,
              new ClusterChoices.Members(
                  cluster.topology(), hosts, List.of(cluster.whole()), /* multicast= */ true),
              "",
              ModelledNetwork.of(settings, ranks));
      for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.ALL_TO_ALL)) {
        for (long count = 1 << 10; count <= 1 << 28; count *= 8) {
          long bytes = 4 * count * operation.wholes(ranks);
          AlgorithmChoice expected = planner.choose(operation, count).chosen();
          AlgorithmChoice cost =
              costs.cost(new Traffic(Axis.data, operation, ranks, 0, 1, bytes, 1));
          assertEquals(expected.algorithm(), cost.algorithm(), operation + " of " + bytes);
          assertEquals(expected.protocol(), cost.protocol());
          assertEquals(
              expected.microseconds(), cost.microseconds(), 1e-6 * expected.microseconds());
        }
      }
    }
  }

  @Test
  void settingsOfThePlannerCount() {
    String line = "--model gpt-7b --gpus 32 --batch 64 --recompute --json --set NCCL_ALGO=tree";
    assertEquals(0, run(words(line)), err.toString());
    assertTrue(out.toString().contains("\"algorithm\":\"Tree\""), out.toString());
    assertFalse(out.toString().contains("\"algorithm\":\"NVLS\""), out.toString());
  }

  private static Traffic data(int ranks, int stride, long bytes) {
    return new Traffic(Axis.data, Operation.ALL_REDUCE, ranks, 0, stride, bytes, 1);
  }

  /** Of the eight groups of a machine's GPUs, each has one card's share. */
  @Test
  void groupsOfAMachineShareItsCards() throws IOException {
    String text = Files.readString(MACHINE);
    GroupCosts fast = costs(text);
    GroupCosts slow = costs(text.replace("speed=\"400000\"", "speed=\"100000\""));
    long bytes = 1L << 30;
    double within = fast.cost(data(8, 1, bytes)).microseconds();
    double across = fast.cost(data(8, 8, bytes)).microseconds();
    // A card carries 50 GB/s, and a ring of 8 sends 7/4 of the data.
    double least = 1.75 * bytes / 50e3;
    assertTrue(across > 0.9 * least && across < 2 * least, across + " us, at least " + least);
    assertTrue(within < across / 4, within + " us within a machine, " + across + " across");
    double slower = slow.cost(data(8, 8, bytes)).microseconds();
    assertTrue(slower > 3 * across, slower + " us with a quarter of the speed, " + across);
    assertEquals(within, slow.cost(data(8, 1, bytes)).microseconds(), "cards are not used within");
  }

  /** A machine of 8 of 16 GPUs sends half of their data to the other, over 8 cards of 50 GB/s. */
  @Test
  void anExchangeSendsMoreOutOfAMachineThanARing() throws IOException {
    GroupCosts costs = costs(Files.readString(MACHINE));
    long bytes = 1L << 30;
    double least = 8 * bytes / 2.0 / 400e3;
    double across = costs.cost(exchange(16, 1, bytes)).microseconds();
    assertTrue(across > 0.9 * least && across < 2 * least, across + " us, at least " + least);
    // Eight groups of one GPU a machine share the cards: each has the 50 GB/s of one.
    double ofOne = bytes * 7.0 / 8 / 50e3;
    double apart = costs.cost(exchange(8, 8, bytes)).microseconds();
    assertTrue(apart > 0.9 * ofOne && apart < 2 * ofOne, apart + " us, at least " + ofOne);
    double within = costs.cost(exchange(8, 1, bytes)).microseconds();
    assertTrue(within < across / 3, within + " us within a machine, " + across + " across");
    assertEquals(Algorithm.PAIRWISE, costs.cost(exchange(8, 1, bytes)).algorithm());
  }

  private static Traffic exchange(int ranks, int stride, long bytes) {
    return new Traffic(Axis.expert, Operation.DISPATCH, ranks, 0, stride, bytes, 1);
  }

  @Test
  void timesGrowWithBytes() throws IOException {
    GroupCosts costs = costs(Files.readString(MACHINE));
    for (Operation operation :
        new Operation[] {
          Operation.SEND,
          Operation.ALL_REDUCE,
          Operation.ALL_GATHER,
          Operation.REDUCE_SCATTER,
          Operation.COMBINE
        }) {
      for (int[] group : new int[][] {{2, 1}, {2, 8}, {16, 1}, {4, 4}}) {
        double last = 0;
        for (long bytes = 1 << 22; bytes <= 1 << 30; bytes *= 4) {
          Traffic call = new Traffic(Axis.data, operation, group[0], 0, group[1], bytes, 1);
          double time = costs.cost(call).microseconds();
          assertTrue(time > last, call + ": " + time + " us, " + last + " for a quarter");
          last = time;
        }
      }
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--gpus 8 | no model is given: pass --model with one of gpt2-xl",
        "--gpus 8 --model gpt-9b | --model gpt-9b is unknown: use one of gpt2-xl",
        "--gpus 0 --model gpt-7b | --gpus 0 must be 1 to 131072",
        "--gpus 12 --model gpt-7b | --gpus 12 is not a multiple of the 8 GPUs of",
        "--gpus 8 --model gpt-7b --batch 0 | --batch 0 must be 1 to",
        "--gpus 8 --model gpt-7b --micro-batch -1 | --micro-batch -1 must be 1 to",
        "--gpus 8 --model gpt-7b --dtype fp8 | --dtype fp8 is unknown: use half, float",
        "--gpus 8 --model gpt-7b --sharding zero9 | expected one of [ddp, zero1, fsdp]",
        "--gpus 8 --model gpt-7b --memory -2 | --memory must be above 0, in GiB",
        "--gpus 8 --model gpt-7b --heads 33 | --heads 33 does not divide --hidden 4096",
        "--gpus 8 --model gpt-7b --kv-heads 5 | --kv-heads 5 does not divide --heads 32",
        "--gpus 8 --layers 2 --hidden 64 | no model is given",
        "--gpus 8 --model gpt-7b --expert 2 | gpt-7b has no experts for --expert: name a model",
        "--gpus 8 --model gpt-7b --dispatch-fp8 | gpt-7b has no experts for --dispatch-fp8",
        "--gpus 8 --model gpt-7b --expert-ffn 8 | --expert-ffn is given for a model without experts",
        "--gpus 8 --model mixtral-8x7b --experts -1 | --experts -1 must be 1 to 65536",
        "--gpus 8 --model mixtral-8x7b --expert 0 | --expert 0 must be 1 to",
        "--gpus 8 --model dbrx --experts-per-token 17 | --experts-per-token 17 must be 1 to 16",
        "--gpus 8 --model gpt-7b --experts 8 --expert-every 5 | --expert-every 5 does not divide",
        "--gpus 8 --model gpt-7b --shared-experts 1 | --shared-experts is given for a model without",
        "--gpus 8 --model gpt-7b --dense-layers 1 | --dense-layers is given for a model without",
        "--gpus 8 --model deepseek-v2 --shared-experts -1 | --shared-experts -1 must be 0 to 65536",
        "--gpus 8 --model deepseek-v2 --dense-layers 60 | --dense-layers 60 must be 0 to 59",
        "--gpus 8 --model gpt-7b --v-head-dim 64 | without latent attention: pass --kv-lora-rank",
        "--gpus 8 --model gpt-7b --kv-lora-rank -4 | --kv-lora-rank -4 must be 1 to 1048576",
        "--gpus 8 --model deepseek-v3 --qk-nope-head-dim 0 | --qk-nope-head-dim 0 must be 1 to"
      })
  void badOptionsAreRefused(String line, String message) {
    assertEquals(2, run(words(line)), out.toString());
    assertTrue(err.toString().contains(message), err.toString());
    assertEquals("", out.toString());
  }

  @Test
  void badFilesAreRefusedWithARemedy() throws IOException {
    String line = "plan --model gpt-7b --gpus 16 --recompute --machine ";
    assertEquals(1, run((line + directory.resolve("none.xml")).split(" ")));
    assertTrue(
        err.toString()
            .startsWith(
                "nccl plan: "
                    + directory.resolve("none.xml")
                    + " cannot be read: there is no such file\n"),
        err.toString());
    assertTrue(err.toString().contains("  remedy: name a file"), err.toString());
    Path alone = directory.resolve("alone.xml");
    Files.writeString(alone, Files.readString(MACHINE).replaceAll("<net [^>]*>", ""));
    assertEquals(1, run((line + alone + " --batch 64").split(" ")));
    assertTrue(err.toString().contains("add a <net> to the topology file"), err.toString());
    Path empty = Files.writeString(directory.resolve("empty.xml"), "<system version=\"1\"/>");
    assertEquals(1, run((line + empty).split(" ")));
    assertTrue(err.toString().contains("has no <gpu>"), err.toString());
    err.getBuffer().setLength(0);
    Path nowhere = directory.resolve("no/where.svg");
    assertEquals(1, run((line + MACHINE + " --batch 64 --svg " + nowhere).split(" ")));
    assertTrue(err.toString().contains("remedy: name a file in a folder"), err.toString());
  }

  /** In a clone and in the archive of {@code nccl dist}, in any folder. */
  @ParameterizedTest
  @ValueSource(strings = {"dgx-h100", "dgx-h100.xml"})
  void usualMachinesHaveNames(String machine) {
    String line = "plan --model gpt-7b --gpus 512 --machine ";
    assertEquals(0, run((line + machine).split(" ")), err.toString());
    String named = out.toString();
    out.getBuffer().setLength(0);
    assertEquals(0, run((line + MACHINE).split(" ")), err.toString());
    assertEquals(out.toString(), named);
    assertTrue(named.contains("512 GPUs, 8 a machine (dgx-h100.xml)"), named);
  }

  /** Such as one with the logs of that machine. */
  @Test
  void aFolderOfItsNameDoesNotHideAMachine() throws IOException {
    Path name = Path.of("dgx-h100");
    Files.createDirectory(directory.resolve(name));
    assertFalse(MachineFile.read(directory, name).children().isEmpty());
    assertEquals("dgx-h100.xml", MachineFile.label(directory, name));
    Files.createDirectory(directory.resolve("own"));
    assertThrows(TopologyException.class, () -> MachineFile.read(directory, Path.of("own")));
  }

  @Test
  void aFileOfItsNameComesBeforeAMachine() throws IOException {
    Path name = Path.of("dgx-h100");
    Files.writeString(directory.resolve(name), "no topology");
    assertThrows(TopologyException.class, () -> MachineFile.read(directory, name));
    assertEquals("dgx-h100", MachineFile.label(directory, name));
  }

  @Test
  void allUsualMachinesAreThereAndNamedInErrors() throws IOException {
    try (Stream<Path> files = Files.list(MACHINE.getParent())) {
      List<String> names =
          files.map(file -> file.getFileName().toString().replace(".xml", "")).sorted().toList();
      assertEquals(names, MachineFile.NAMES.stream().sorted().toList());
      names.forEach(name -> assertFalse(MachineFile.read(Path.of(name)).children().isEmpty()));
    }
    assertEquals(1, run("plan --model gpt-7b --gpus 8 --machine machines/dgx-h100.xml".split(" ")));
    assertTrue(
        err.toString().contains("machines/dgx-h100.xml cannot be read: there is no such file"),
        err.toString());
    String all = "or one of the machines " + String.join(", ", MachineFile.NAMES);
    assertTrue(err.toString().contains(all), err.toString());
  }

  /** The help names the models that there are. */
  @Test
  void theHelpListsTheModels() {
    assertEquals(0, run("plan", "--help"));
    String help = out.toString().replaceAll("\\s+", " ");
    ModelShape.KNOWN.forEach(model -> assertTrue(help.contains(model.name()), model.name()));
  }
}
