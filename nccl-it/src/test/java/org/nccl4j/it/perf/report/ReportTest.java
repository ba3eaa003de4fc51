package org.nccl4j.it.perf.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.nccl4j.it.perf.check.CheckResult;

final class ReportTest {
  private final StringWriter text = new StringWriter();
  private final PrintWriter out = new PrintWriter(text);

  @Test
  void tableHasTheColumnsOfNcclTests() {
    Table table = new Table(out, "");
    table.header();
    table.row(Samples.result(262144, true, 100, 0), Samples.result(262144, true, 12345.6, 0));
    List<String> lines = text.toString().lines().toList();
    assertEquals(
        List.of(
            "#",
            "#                                                                 out-of-place"
                + "                          in-place",
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
                + "     time   algbw   busbw  #wrong",
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        "
                + "     (us)  (GB/s)  (GB/s)        ",
            "     1048576        262144     float     sum      -1    100.0   10.49   15.73       0"
                + "    12346    0.08    0.13       0"),
        lines);
  }

  @Test
  void tableShowsAReferenceOnlyIfThereIsOne() {
    Table table = new Table(out, "mpi");
    table.header();
    table.row(Samples.result(2, false, 1.5, 0), null);
    List<String> lines = text.toString().lines().toList();
    assertTrue(lines.get(2).endsWith("mpi   ratio"), lines.get(2));
    assertTrue(lines.get(4).endsWith("N/A       3.00    2.00"), lines.get(4));
  }

  @Test
  void tableShowsTheBlocksOfBothHalves() {
    Table table = new Table(out, "", /* blocks= */ true);
    table.header();
    table.row(Samples.result(2, false, 1.5, 0), null);
    table.row(Samples.result(262144, true, 100, 0), Samples.result(262144, true, 100, 0));
    List<String> lines = text.toString().lines().toList();
    assertTrue(lines.get(2).endsWith("#wrong  blocks  blocks"), lines.get(2));
    assertTrue(lines.get(3).endsWith("(out)    (in)"), lines.get(3));
    assertTrue(lines.get(4).contains("N/A      16     N/A"), lines.get(4));
    assertTrue(lines.get(5).endsWith("0      16      16"), lines.get(5));
  }

  @Test
  void summaryComparesAndJudges() {
    Summary summary = new Summary(Samples.report().results());
    summary.print(out);
    out.flush();
    assertFalse(summary.right());
    assertEquals(2, summary.meanRatio(), 1e-12);
    assertTrue(text.toString().contains("# Out of bounds values : 0 OK"));
    assertTrue(text.toString().contains("2.00 (geometric mean); least 2.00 (all_reduce, 8 bytes)"));
  }

  /** The names and types of all fields, as the design has them. */
  @Test
  void jsonHasTheSchema() throws IOException {
    TreeSet<String> fields = new TreeSet<>();
    List<String> path = new ArrayList<>();
    try (JsonParser json = new JsonFactory().createParser(JsonReport.text(Samples.report()))) {
      JsonToken token;
      while ((token = json.nextToken()) != null) {
        switch (token) {
          case START_OBJECT, START_ARRAY -> path.add(json.currentName());
          case END_OBJECT, END_ARRAY -> path.remove(path.size() - 1);
          case FIELD_NAME -> {}
          default -> fields.add(place(path, json.currentName()) + ":" + kind(token));
        }
      }
    }
    assertEquals(
        new TreeSet<>(
            List.of(
                "machine.host:text",
                "machine.processor:text",
                "machine.cores:number",
                "machine.memoryBytes:number",
                "machine.os:text",
                "machine.java:text",
                "version:text",
                "command:text",
                "results.collective:text",
                "results.device:text",
                "results.ranks:number",
                "results.mode:text",
                "results.type:text",
                "results.op:text",
                "results.root:number",
                "results.blocks:number",
                "results.bytes:number",
                "results.count:number",
                "results.inPlace:boolean",
                "results.graph:boolean",
                "results.registered:boolean",
                "results.algorithm:text",
                "results.protocol:text",
                "results.transport:text",
                "results.timeUs:number",
                "results.algBw:number",
                "results.busBw:number",
                "results.wrong:number",
                "results.outside:number",
                "results.references.name:text",
                "results.references.version:text",
                "results.references.timeUs:number",
                "results.references.ratio:number")),
        fields);
  }

  /** Wrong elements are not all that can be wrong. */
  @Test
  void jsonAndPageJudgeWhatIsWrittenOutside() {
    Result result = Samples.result(8, true, 1, 0);
    Result outside =
        new Result(
            result.cell(),
            result.nRanks(),
            result.timeUs(),
            new CheckResult(0, 3, ""),
            result.choice(),
            result.references());
    Report report = Samples.report();
    String page =
        HtmlReport.text(
            new Report(
                report.machine(),
                report.version(),
                report.command(),
                report.setting(),
                List.of(outside),
                List.of()));
    assertTrue(page.contains("\"outside\" : 3"), page);
    assertTrue(page.contains("result.wrong > 0 || result.outside > 0"), page);
  }

  private static String place(List<String> path, String name) {
    List<String> words = new ArrayList<>(path);
    words.add(name);
    words.removeIf(word -> word == null);
    return String.join(".", words);
  }

  private static String kind(JsonToken token) {
    return switch (token) {
      case VALUE_STRING -> "text";
      case VALUE_NUMBER_INT, VALUE_NUMBER_FLOAT -> "number";
      case VALUE_TRUE, VALUE_FALSE -> "boolean";
      default -> token.toString();
    };
  }

  @Test
  void pageHasDataLibraryAndLicence() {
    String page = HtmlReport.text(Samples.report());
    assertTrue(page.contains("\"collective\" : \"all_reduce\""));
    assertTrue(page.contains("var uPlot="));
    assertTrue(page.contains("Permission is hereby granted"));
    assertFalse(page.contains("src="), "the page must need nothing else");
    Matcher ends = Pattern.compile("</script>").matcher(page);
    assertEquals(3, ends.results().count(), "the command's </script> must not end the data");
  }
}
