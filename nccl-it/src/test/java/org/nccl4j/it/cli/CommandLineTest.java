package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.it.perf.workload.Workload;
import picocli.CommandLine;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;

final class CommandLineTest {
  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();

  private int run(String line) {
    String[] words = line.isEmpty() ? new String[0] : line.split(" ");
    return Main.run(new PrintWriter(out), new PrintWriter(err), words);
  }

  /** A command line and the text that its message must have; the status is 2. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "'' | no command is given",
        "perv | 'perv'",
        "foo | unknown command 'foo': use perf, tune, run, topo, plan, doctor, diagnose, top,"
            + " trace, device-headers, with or dist",
        "help frob | unknown command 'frob': use perf, tune, run",
        "topo | no command is given: use detect, show",
        "topo shaw | unknown command 'shaw': use detect, show",
        "topo show x.xml | one argument too many",
        "topo show --nodes 2 | --nodes has no effect beside a tree: add --svg FILE or --json",
        "topo show --file a.xml --root b | --root has no effect beside --file",
        "topo graph --xml --json | --json has no effect beside --xml",
        "topo detect --tree --json | --tree has no effect beside --json",
        "perf | COLLECTIVE",
        "perf all_reduze | COLLECTIVE all_reduze",
        "perf all_reduce -q | '-q'",
        "perf all_reduce extra | 'extra'",
        "perf all_reduce -b 12Q | -b '12Q' is not a size",
        "perf all_reduce -b | '--minbytes'",
        "perf all_reduce -b 1G -e 1M | -b 1G and end with -e 1M",
        "perf all_reduce -e 1.0001 | -e '1.0001' is not a whole number",
        "perf all_reduce -i 1M -f 2 | -i and -f",
        "perf all_reduce -i 0 | the step is 0",
        "perf all_reduce -f 0 | -f 0 is out of range",
        "perf all_reduce -f 1 | -f 1: the sizes never grow",
        "perf all_reduce -t 2 --transport Nope | --transport Nope: it names 'Nope'",
        "perf all_reduce -f two | two",
        "perf all_reduce -n 0 | -n 0 is out of range",
        "perf all_reduce -n many | -n many is not a number",
        "perf all_reduce -w -1 | -w -1 is out of range",
        "perf all_reduce -m 0 | -m 0 is out of range",
        "perf all_reduce -c -1 | -c -1 is out of range",
        "perf all_reduce -o mean | -o mean",
        "perf all_reduce -o mulsum | -o mulsum",
        "perf all_reduce -d float128 | remedy: use one or more of ",
        "perf broadcast -t 2 -r 2 | -r 2 is out of range",
        "perf broadcast -t 2 -r -2 | -r -2 is out of range",
        "perf all_reduce -t 0 | -t 0 is out of range",
        "perf all_reduce -t 1000 | -t 1000 is out of range",
        "perf all_reduce --processes 0 | --processes 0 is out of range",
        "perf all_reduce -t 2 --processes 2 | -t and --processes",
        "perf all_reduce -g 2 | -g 2",
        "perf all_reduce -G 1 | -G 1",
        "perf all_reduce -R 3 | -R 3 is out of range",
        "perf all_reduce --device cuda -x 4 | -x 4 is out of range",
        "perf all_reduce --device host -x 2 | -x 2: the host device has no blocks",
        "perf all_reduce --device host -x 3 | -x 3: the host device has no blocks",
        "perf all_reduce -y 1 | perf makes its streams itself",
        "perf all_reduce -z 2 | -z 2 is out of range",
        "perf all_reduce -a 4 | -a 4 is out of range",
        "perf all_reduce -T 0 | -T 0 is out of range",
        "perf all_reduce --device cuda --compare mpi | it is measured on host memory",
        "perf all_reduce --device cuda --processes 2 -g 2 | each process drives one GPU",
        "perf all_reduce --device cuda -G 10 -z 1 | -G and -z are both given",
        "perf all_reduce --device host --compare libnccl | libnccl works on GPUs only",
        "perf all_reduce --device tpu | no such device",
        "perf all_reduce --bind-to socket | --bind-to socket",
        "perf all_reduce --algo Rink | no 'Rink'",
        "perf all_reduce --algo ring;allreduce:DirectTwist | no 'DirectTwist'",
        "perf all_reduce --proto LL,LL256 | no 'LL256'",
        "perf all_reduce --compare gloo | --compare gloo",
        "perf all_reduce --compare quantised=f8e4m3:64 | no such quantisation",
        "perf broadcast --device host --compare quantised | no quantised broadcast",
        "perf all_reduce --device host --compare quantised -o max | by max",
        "perf all_reduce --compare mpi -d half | no type half",
        "perf all_reduce --compare mpi -o avg | no operator avg",
        "perf all_reduce --compare mpi -e 3G -d int8 | MPI counts at most",
        "perf all_reduce -t 200 -e 1000G | of memory",
        "perf all_reduce --json /no/such/folder/x.json | --json",
        "perf all_reduce --html /tmp | --html",
        "perf hypercube -t 3 | power of two",
        "perf all_reduce -D 3 | -D (--device_implementation) is an option of nccl-tests",
        "perf all_reduce --per_iter_timing | -I (--per_iter_timing) is an option of nccl-tests",
        "perf all_reduce -J x.json | ours is --json",
        "run -n 2 | missing required parameter: 'PROGRAM'",
        "run -- true | --ranks",
        "run -n 0 -- true | -n 0 is out of range",
        "run -n two -- true | invalid value for option '--ranks': 'two' is not a whole number",
        "top -i x | is not a number",
        "perf all_reduce --hosts a,b | add --processes N",
        "perf all_reduce --launcher rsh --processes 2 | there are no hosts to start it for",
        "perf all_reduce --json a --html a | --json and --html name one file",
        "perf all_reduce --processes 2 --compare mpi -a 3 | is the mean of its ranks",
        "perf all_reduce --processes 2 --compare mpi -z 1 | do not wait for each other",
        "perf all_reduce --device cuda | --device cuda: ",
        "run -n 2 --launcher rsh -- true | --launcher must be used with --hosts",
        "doctor --jason | --jason",
        "run -n 2 --hosts a,,b -- true | --hosts a,,b has an empty name",
        "tune -t 1 FILE | -t 1 is out of range",
        "tune -b foo FILE | -b 'foo' is not a size",
        "topo show --set FOO=1 | there is no setting FOO",
        "topo show --set FOO | value for option '--set' (NAME=VALUE) should be in KEY=VALUE format",
        "topo graph --set NCCL_CROSS_NIC=3 | the setting NCCL_CROSS_NIC is \"3\" (--set)",
        "plan --layers 10000 --hidden 1048576 --heads 1 --ffn 8388608 --experts 65536"
            + " --gpus 8 --machine no.xml | the model has about 2e+22 parameters",
        "plan --model llama-3-8b --gpus 8 --machine no.xml --set NCCL_CROSS_NIC=x | (--set)",
        "topo graph --nodes 1,0 | --nodes 0 is out of range",
        "topo simulate --nodes -1 | --nodes -1 is out of range",
        "topo show --set NCCL_CROSS_NIK=1 | did you mean NCCL_CROSS_NIC?",
        "perf all_reduce --json /no/such/folder/x.json | there is no folder /no/such/folder",
        "perf all_reduce --html /proc/x.html | --html /proc/x.html cannot be written",
      })
  void badInputIsExplained(String line, String message) {
    assertEquals(2, run(line), () -> out + "" + err);
    assertTrue(err.toString().contains(message), err::toString);
    assertTrue(err.toString().contains("--help"), err::toString);
    assertTrue(err.toString().contains("remedy: "), err::toString);
    assertEquals("", out.toString());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"--help", "perf --help", "perf -h", "run --help", "doctor -h", "help perf"})
  void helpIsShown(String line) {
    assertEquals(0, run(line));
    assertTrue(out.toString().startsWith("Usage: nccl"), out::toString);
    assertEquals("", err.toString());
  }

  @Test
  void helpNamesEveryCollective() {
    run("perf --help");
    String text = out.toString().replaceAll("\\s+", " ");
    for (Workload workload : Workload.values()) {
      assertTrue(text.contains(workload.label() + ",") || text.contains(workload.label() + " "));
    }
  }

  /** A value that has no label is shown by the name or type of a field. */
  @Test
  void valuesHaveLabels() {
    int seen = valuesHaveLabels(new CommandLine(new Main()));
    assertTrue(seen > 30, seen + " options");
  }

  private static int valuesHaveLabels(CommandLine command) {
    int seen = 0;
    CommandSpec spec = command.getCommandSpec();
    if (spec.usageMessage().hidden()) {
      return 0;
    }
    for (ArgSpec argument : spec.args()) {
      if (argument.arity().max() > 0 && !argument.hidden()) {
        String where = spec.qualifiedName() + ", " + argument;
        assertFalse(argument.paramLabel().startsWith("<"), where);
        seen++;
      }
    }
    for (CommandLine each : command.getSubcommands().values()) {
      if (!each.getCommandName().equals("help")) {
        seen += valuesHaveLabels(each);
      }
    }
    return seen;
  }

  /** A line that is too long is broken after a dot or a colon, too. */
  @Test
  void namesInHelpAreNotBroken() {
    assertEquals(0, run("--help"));
    assertEquals(0, run("trace --help"));
    for (String name : new String[] {"drop-in.md", "ui.perfetto.dev", "chrome://tracing"}) {
      assertTrue(out.toString().contains(name), out::toString);
    }
  }

  @Test
  void settingsOfAMachineAreNamesWithValues() {
    assertEquals(0, run("topo show --help"));
    assertTrue(out.toString().contains("--set=NAME=VALUE"), out::toString);
  }

  /** In perf, -V is an option of nccl-tests. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "--version",
        "-V",
        "perf --version",
        "run -V",
        "doctor -V",
        "topo -V",
        "topo graph -V",
        "top -V"
      })
  void versionIsShown(String line) {
    assertEquals(0, run(line), err::toString);
    assertTrue(out.toString().startsWith("nccl4j "), out::toString);
  }

  /** As are all letters but ASCII's in the locale C. The file's name is %. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "diagnose %",
        "diagnose --save % 1",
        "trace %",
        "trace -o % 1",
        "top --web 0 --machine %",
        "top --web 0 --machine h=%",
        "topo show --file %",
        "topo detect --set NCCL_TOPO_FILE=%",
        "topo detect --set NCCL_TOPO_DUMP_FILE=%",
        "perf all_reduce --device host --json %",
        "tune %"
      })
  void aFileNameThatIsNoneIsExplained(String line) {
    int status = run(line.replace("%", "a\0b"));
    assertTrue(status == 1 || status == 2, () -> status + ": " + err);
    assertFalse(err.toString().contains("defect"), err::toString);
    assertFalse(err.toString().contains("convert"), err::toString);
    assertTrue(err.toString().contains("a\0b"), err::toString);
    assertTrue(err.toString().contains("\n  remedy: set LC_ALL=C.UTF-8"), err::toString);
  }

  /** A command line that fails on this machine, and its whole message. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "device-headers /proc/x | the headers cannot be written to /proc/x (there is no /proc/x)",
        "trace 4194305 | there is no process 4194305",
        "trace /no.jfr | /no.jfr cannot be read as a recording: there is no /no.jfr",
      })
  void failuresNameNoClass(String line, String message) {
    assertEquals(1, run(line), () -> out + "" + err);
    assertEquals(
        "nccl " + line.split(" ")[0] + ": " + message, err.toString().lines().findFirst().get());
  }
}
