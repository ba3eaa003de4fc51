package org.nccl4j.it.plan;

import java.util.Optional;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The options that describe a transformer: a known one, its dimensions, or both. */
final class ModelOptions {
  private static final int VOCABULARY = 50257;
  private static final int SEQUENCE = 2048;
  private static final String HEADS = "all heads have the same width";
  private static final int PER_TOKEN = 2;

  /** Heads of the published models with latent attention. */
  private static final Latent LATENT = new Latent(0, 0, 128, 64, 128);

  private static final int MOST_EXPERTS = 1 << 16;
  private static final int MOST_LAYERS = 10_000;
  private static final int MOST_WIDTH = 1 << 20;
  private static final int MOST_TOKENS = 1 << 24;

  /** With their gradients and optimizer states, their bytes are still in a long's range. */
  private static final double MOST_PARAMETERS = 1e15;

  @Spec(Spec.Target.MIXEE)
  private CommandSpec spec;

  @Option(
      names = "--model",
      paramLabel = "NAME",
      description =
          "A known model: gpt2-xl, gpt-7b, gpt-13b, gpt-175b, llama-2-7b, llama-2-70b, llama-3-8b,"
              + " llama-3-70b, llama-3.1-405b or mistral-7b; with experts: mixtral-8x7b,"
              + " mixtral-8x22b, dbrx or olmoe-1b-7b; with latent attention too: deepseek-v2-lite,"
              + " deepseek-v2 or deepseek-v3. Options such as --layers change its dimensions.")
  private String name;

  @Option(names = "--layers", paramLabel = "N", description = "Layers.")
  private Integer layers;

  @Option(names = "--hidden", paramLabel = "N", description = "Width of the residual stream.")
  private Integer hidden;

  @Option(names = "--heads", paramLabel = "N", description = "Query heads.")
  private Integer heads;

  @Option(
      names = "--kv-heads",
      paramLabel = "N",
      description = "Heads of keys and values; default: --heads.")
  private Integer kvHeads;

  @Option(
      names = "--ffn",
      paramLabel = "N",
      description = "Width of the feed-forward network; default: 4 times --hidden.")
  private Integer ffn;

  @Option(
      names = "--gated",
      arity = "1",
      paramLabel = "BOOLEAN",
      description = "true for a feed-forward network of three matrices (SwiGLU).")
  private Boolean gated;

  @Option(
      names = "--experts",
      paramLabel = "N",
      description = "Experts of a layer (mixture of experts); default: 0, one network for all.")
  private Integer experts;

  @Option(
      names = "--experts-per-token",
      paramLabel = "N",
      description = "Experts that compute each token; default: 2.")
  private Integer expertsPerToken;

  @Option(
      names = "--expert-ffn",
      paramLabel = "N",
      description = "Width of an expert; default: --ffn.")
  private Integer expertFfn;

  @Option(
      names = "--expert-every",
      paramLabel = "N",
      description = "Each N-th layer has experts, the others one network; default: 1, all layers.")
  private Integer expertEvery;

  @Option(
      names = "--shared-experts",
      paramLabel = "N",
      description = "Experts of a layer that compute every token, beside --experts; default: 0.")
  private Integer sharedExperts;

  @Option(
      names = "--dense-layers",
      paramLabel = "N",
      description = "First layers without experts, one network of --ffn each; default: 0.")
  private Integer denseLayers;

  @Option(
      names = "--kv-lora-rank",
      paramLabel = "N",
      description =
          "Latent attention (MLA): elements of the vector that a token's keys and values are"
              + " computed from; default: 0, other attention.")
  private Integer latentRank;

  @Option(
      names = "--q-lora-rank",
      paramLabel = "N",
      description = "The same of queries; default: 0, they are computed from the stream.")
  private Integer latentQueryRank;

  @Option(
      names = "--qk-nope-head-dim",
      paramLabel = "N",
      description = "Elements of a head's query and key without a position; default: 128.")
  private Integer latentPlain;

  @Option(
      names = "--qk-rope-head-dim",
      paramLabel = "N",
      description = "Elements of a head's query with its position; default: 64.")
  private Integer latentRotary;

  @Option(
      names = "--v-head-dim",
      paramLabel = "N",
      description = "Elements of a head's value; default: 128.")
  private Integer latentValue;

  @Option(names = "--vocabulary", paramLabel = "N", description = "Tokens; default: 50257.")
  private Integer vocabulary;

  @Option(
      names = "--sequence",
      paramLabel = "N",
      description = "Tokens of a training sequence; default: 2048.")
  private Integer sequence;

  /**
   * The model.
   *
   * @throws ParameterException if the options describe none
   */
  ModelShape shape() {
    Optional<ModelShape> known = name == null ? Optional.empty() : Optional.of(known());
    if (known.isEmpty() && (layers == null || hidden == null || heads == null)) {
      throw bad(
          "no model is given: pass --model with one of %s, or --layers, --hidden and --heads"
              .formatted(ModelShape.names()));
    }
    // A width or number of heads of its own takes the rest from the defaults of a plain
    // transformer.
    boolean keepsHeads = heads == null;
    boolean keepsWidth = hidden == null;
    int width = or(hidden, known.map(ModelShape::hidden).orElse(0));
    int queries = or(heads, known.map(ModelShape::heads).orElse(0));
    int keys = or(kvHeads, known.filter(k -> keepsHeads).map(ModelShape::kvHeads).orElse(queries));
    int inner = or(ffn, known.filter(k -> keepsWidth).map(ModelShape::ffn).orElse(4 * width));
    ModelShape shape =
        new ModelShape(
            known.map(ModelShape::name).orElse("transformer"),
            or(layers, known.map(ModelShape::layers).orElse(0)),
            width,
            queries,
            keys,
            inner,
            gated != null ? gated : known.map(ModelShape::gated).orElse(false),
            or(vocabulary, known.map(ModelShape::vocabulary).orElse(VOCABULARY)),
            or(sequence, known.map(ModelShape::sequence).orElse(SEQUENCE)),
            known.map(ModelShape::tied).orElse(false),
            experts(known.map(ModelShape::experts).orElse(Experts.NONE), keepsWidth, inner),
            latent(known.map(ModelShape::latent).orElse(Latent.NONE)));
    check(shape);
    return shape;
  }

  private Experts experts(Experts known, boolean keepsWidth, int inner) {
    int number = or(experts, known.number());
    if (number == 0) {
      requireAbsent("--experts-per-token", expertsPerToken, "experts", "--experts");
      requireAbsent("--expert-ffn", expertFfn, "experts", "--experts");
      requireAbsent("--expert-every", expertEvery, "experts", "--experts");
      requireAbsent("--shared-experts", sharedExperts, "experts", "--experts");
      requireAbsent("--dense-layers", denseLayers, "experts", "--experts");
      return Experts.NONE;
    }
    boolean keepsExpert = known.number() > 0 && keepsWidth && ffn == null;
    return new Experts(
        number,
        or(expertsPerToken, known.number() > 0 ? known.perToken() : PER_TOKEN),
        or(sharedExperts, known.shared()),
        or(expertFfn, keepsExpert ? known.width() : inner),
        or(expertEvery, known.every()),
        or(denseLayers, known.dense()));
  }

  private Latent latent(Latent known) {
    int rank = or(latentRank, known.rank());
    if (rank == 0) {
      String what = "latent attention";
      requireAbsent("--q-lora-rank", latentQueryRank, what, "--kv-lora-rank");
      requireAbsent("--qk-nope-head-dim", latentPlain, what, "--kv-lora-rank");
      requireAbsent("--qk-rope-head-dim", latentRotary, what, "--kv-lora-rank");
      requireAbsent("--v-head-dim", latentValue, what, "--kv-lora-rank");
      return Latent.NONE;
    }
    Latent base = known.rank() > 0 ? known : LATENT;
    return new Latent(
        rank,
        or(latentQueryRank, base.queryRank()),
        or(latentPlain, base.plain()),
        or(latentRotary, base.rotary()),
        or(latentValue, base.value()));
  }

  private void requireAbsent(String option, Integer given, String what, String other) {
    if (given != null) {
      throw bad("%s is given for a model without %s: pass %s too".formatted(option, what, other));
    }
  }

  private ModelShape known() {
    return ModelShape.named(name)
        .orElseThrow(
            () ->
                bad(
                    "--model %s is unknown: use one of %s, or describe it by --layers, --hidden and"
                            .formatted(name, ModelShape.names())
                        + " --heads"));
  }

  private void check(ModelShape shape) {
    range("--layers", shape.layers(), MOST_LAYERS);
    range("--hidden", shape.hidden(), MOST_WIDTH);
    range("--heads", shape.heads(), MOST_WIDTH);
    range("--kv-heads", shape.kvHeads(), MOST_WIDTH);
    range("--ffn", shape.ffn(), 8 * MOST_WIDTH);
    range("--vocabulary", shape.vocabulary(), MOST_TOKENS);
    range("--sequence", shape.sequence(), MOST_TOKENS);
    if (!shape.isLatent()) {
      divides("--heads", shape.heads(), "--hidden", shape.hidden(), HEADS);
    }
    divides("--kv-heads", shape.kvHeads(), "--heads", shape.heads(), HEADS);
    Experts of = shape.experts();
    if (!of.equals(Experts.NONE)) {
      range("--experts", of.number(), MOST_EXPERTS);
      range("--experts-per-token", of.perToken(), of.number());
      range("--expert-ffn", of.width(), 8 * MOST_WIDTH);
      range("--expert-every", of.every(), shape.layers());
      divides("--expert-every", of.every(), "--layers", shape.layers(), "the last layer has them");
      range("--shared-experts", of.shared(), 0, MOST_EXPERTS);
      range("--dense-layers", of.dense(), 0, shape.layers() - 1);
    }
    Latent latent = shape.latent();
    if (!latent.equals(Latent.NONE)) {
      range("--kv-lora-rank", latent.rank(), MOST_WIDTH);
      range("--q-lora-rank", latent.queryRank(), 0, MOST_WIDTH);
      range("--qk-nope-head-dim", latent.plain(), MOST_WIDTH);
      range("--qk-rope-head-dim", latent.rotary(), 0, MOST_WIDTH);
      range("--v-head-dim", latent.value(), MOST_WIDTH);
    }
    if (shape.magnitude() > MOST_PARAMETERS) {
      throw bad(
          "the model has about %.0e parameters, and %.0e at most are counted: pass smaller --layers,"
                  .formatted(shape.magnitude(), MOST_PARAMETERS)
              + " --hidden, --ffn or --experts");
    }
  }

  private void range(String option, int value, int most) {
    range(option, value, 1, most);
  }

  private void range(String option, int value, int least, int most) {
    if (value < least || value > most) {
      throw bad("%s %d must be %d to %d".formatted(option, value, least, most));
    }
  }

  private void divides(String option, int value, String whole, int of, String because) {
    if (of % value != 0) {
      throw bad("%s %d does not divide %s %d: %s".formatted(option, value, whole, of, because));
    }
  }

  private ParameterException bad(String why) {
    return new ParameterException(spec.commandLine(), why);
  }

  private static int or(Integer given, int otherwise) {
    return given == null ? otherwise : given;
  }
}
