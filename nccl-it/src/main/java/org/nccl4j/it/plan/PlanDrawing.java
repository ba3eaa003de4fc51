package org.nccl4j.it.plan;

import java.util.List;
import java.util.Locale;
import org.nccl4j.it.plan.Plan.Estimate;
import org.nccl4j.it.plan.Traffic.Axis;

/** Draws a plan as SVG: a bar for each layout, with a part for each axis. */
final class PlanDrawing {
  private static final int LABEL = 330;

  /** For a degree more in the labels. */
  private static final int LABEL_OF_EXPERTS = 70;

  /** For the layers of unequal stages. */
  private static final int LABEL_OF_LAYERS = 110;

  private static final int BAR = 560;
  private static final int FIGURE = 110;
  private static final int ROW = 24;
  private static final int TOP = 78;

  private static final String TEXT =
      "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" font-family=\"sans-serif\" font-size=\"%d\""
          + " fill=\"#222222\">%s</text>%n";

  private final StringBuilder svg = new StringBuilder();
  private final ModelShape model;
  private final List<Axis> axes;
  private final int label;

  private PlanDrawing(ModelShape model, boolean equal) {
    this.model = model;
    this.axes = Axis.of(model);
    this.label =
        LABEL + (model.hasExperts() ? LABEL_OF_EXPERTS : 0) + (equal ? 0 : LABEL_OF_LAYERS);
  }

  /**
   * The picture.
   *
   * @param machine name of the topology file
   * @param rows most layouts
   */
  static String of(Plan plan, String machine, int rows) {
    List<Estimate> shown = plan.estimates().stream().limit(rows).toList();
    boolean equal = shown.stream().allMatch(each -> each.stages().areEqual());
    return new PlanDrawing(plan.job().model(), equal).draw(plan, machine, shown);
  }

  private String draw(Plan plan, String machine, List<Estimate> shown) {
    int width = label + BAR + FIGURE;
    int height = TOP + ROW * Math.max(1, shown.size()) + 16;
    String title =
        "%s on %d GPUs of %s: communication of a step"
            .formatted(plan.job().model().name(), plan.job().gpus(), machine);
    add(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\""
            + " viewBox=\"0 0 %d %d\">%n<title>%s</title>%n"
            + "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>%n",
        width, height, width, height, escape(title));
    add(TEXT, 16, 26, "start", 16, escape(title));
    int x = label;
    for (Axis axis : axes) {
      rectangle(x, 44, 14, axis);
      add(TEXT, x + 20, 56, "start", 12, axis.name());
      x += 110;
    }
    double most = shown.stream().mapToDouble(Estimate::milliseconds).max().orElse(0);
    for (int row = 0; row < shown.size(); row++) {
      bar(shown.get(row), TOP + ROW * row, most);
    }
    if (shown.isEmpty()) {
      add(TEXT, 16, TOP + 14, "start", 12, "no layout fits");
    }
    return svg.append("</svg>\n").toString();
  }

  private void bar(Estimate each, int y, double most) {
    add(TEXT, label - 10, y + 13, "end", 12, each.layout().describe(model));
    double begin = label;
    for (Axis axis : axes) {
      double length = most == 0 ? 0 : BAR * each.milliseconds(axis) / most;
      if (length > 0) {
        rectangle(begin, y, length, axis);
      }
      begin += length;
    }
    String figure = String.format(Locale.ROOT, "%.1f ms", each.milliseconds());
    add(TEXT, (int) Math.ceil(begin) + 6, y + 13, "start", 12, figure);
  }

  private void rectangle(double x, int y, double width, Axis axis) {
    add(
        "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"16\" fill=\"%s\" class=\"%s\"/>%n",
        x, y, width, axis.colour(), axis);
  }

  private void add(String format, Object... values) {
    svg.append(String.format(Locale.ROOT, format, values));
  }

  private static String escape(String text) {
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
  }
}
