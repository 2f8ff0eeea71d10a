#include "src/config/schema.h"

#include "src/config/section_builder.h"

namespace headwise::config {
namespace {

constexpr double kMost = 1e9;  // of sizes, so that products of two fit int64

Section data_section() {
  using D = DataConfig;
  return SectionBuilder<D>("data", &Config::data, "where the sentence pairs come from")
      .word("kind", &D::kind, {{"files", DataKind::kFiles}, {"embedded", DataKind::kEmbedded}},
            "text files, or the built-in English-Korean grammar")
      .text("root", &D::root, "folder put before the relative paths below")
      .text("train_source", &D::train_source, "training text, one sentence a line; plain or gzip")
      .text("train_target", &D::train_target, "translation of the training text, line by line")
      .text("valid_source", &D::valid_source, "validation text")
      .text("valid_target", &D::valid_target, "translation of the validation text")
      .integer("max_length", &D::max_length, between(2, kMost),
               "pieces of one side, end token included; longer pairs are dropped")
      .real("max_length_ratio", &D::max_length_ratio, zero_or_at_least(1),
            "pieces of the longer side over the shorter; pairs beyond are dropped; 0 = any")
      .integer("embedded_pairs", &D::embedded_pairs, between(1, kMost),
               "kind \"embedded\": training pairs drawn from the grammar")
      .integer("embedded_valid", &D::embedded_valid, between(0, kMost),
               "kind \"embedded\": validation pairs")
      .integer("embedded_seed", &D::embedded_seed, at_least(0),
               "kind \"embedded\": another seed gives other pairs")
      .build();
}

Section subword_section() {
  using S = SubwordConfig;
  return SectionBuilder<S>("subword", &Config::subword,
                           "SentencePiece models, trained from the training text unless given")
      .flag("joint", &S::joint, "one model for both languages")
      .integer("vocabulary", &S::vocabulary, between(8, 1000000),
               "pieces; of each model when they are separate")
      .word("type", &S::type, {{"unigram", SubwordType::kUnigram}, {"bpe", SubwordType::kBpe}},
            "how pieces are found")
      .word("normalization", &S::normalization,
            {"nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"},
            "Unicode rule applied before splitting; _cf folds case")
      .real("character_coverage", &S::character_coverage, between(0.98, 1),
            "share of the characters that get a piece; the rarest are unknown")
      .flag("byte_fallback", &S::byte_fallback, "unknown characters become byte pieces")
      .real("source_dropout", &S::source_dropout, fraction(),
            "BPE-dropout: chance that a merge is left out while training, anew each epoch; 0 = off")
      .real("target_dropout", &S::target_dropout, fraction(), "the same for the target text")
      .text("model", &S::model, "joint = true: a model to use instead of training one")
      .text("source_model", &S::source_model, "joint = false: likewise, for the source")
      .text("target_model", &S::target_model, "joint = false: likewise, for the target")
      .flag("trust_model", &S::trust_model,
            "use a given model although the installed SentencePiece is older than 0.2.1")
      .build();
}

void add_heads(SectionBuilder<ModelConfig>& builder) {
  using M = ModelConfig;
  builder
      .heads("encoder_heads", &M::encoder_heads,
             "query heads of encoder self-attention: one number, or one per layer")
      .heads("encoder_kv_heads", &M::encoder_kv_heads,
             "key/value heads likewise; [] = as the query heads")
      .heads("decoder_heads", &M::decoder_heads, "query heads of decoder self-attention")
      .heads("decoder_kv_heads", &M::decoder_kv_heads, "key/value heads likewise")
      .heads("cross_heads", &M::cross_heads, "query heads of the decoder's cross-attention")
      .heads("cross_kv_heads", &M::cross_kv_heads, "key/value heads likewise")
      .integer("head_width", &M::head_width, between(0, 65536),
               "width of one head; 0 = width / heads");
}

Section model_section() {
  using M = ModelConfig;
  SectionBuilder<M> builder("model", &Config::model, "the Transformer");
  builder.integer("width", &M::width, between(1, 65536), "model width, the size of an embedding")
      .integer("feed_forward", &M::feed_forward, between(1, 1048576), "width inside feed-forward")
      .integer("encoder_layers", &M::encoder_layers, between(1, 1000), "layers of the encoder")
      .integer("decoder_layers", &M::decoder_layers, between(1, 1000), "layers of the decoder");
  add_heads(builder);
  builder
      .word("norm", &M::norm, {{"pre", NormPlacement::kPre}, {"post", NormPlacement::kPost}},
            "layer norm before a sublayer, or after its residual")
      .word("activation", &M::activation,
            {{"relu", Activation::kRelu}, {"gelu", Activation::kGelu}},
            "function inside feed-forward")
      .word("positions", &M::positions,
            {{"sinusoidal", Positions::kSinusoidal}, {"rotary", Positions::kRotary}},
            "positions: added to the embeddings, or rotating queries and keys")
      .word("embeddings", &M::embeddings,
            {{"shared", Embeddings::kShared}, {"separate", Embeddings::kSeparate}},
            "one table for both languages (needs subword.joint), or two")
      .flag("tied_output", &M::tied_output, "the output layer is the target embedding")
      .flag("attention_bias", &M::attention_bias, "with the biases of W_Q, W_K, W_V, W_O")
      .flag("output_projection", &M::output_projection,
            "false: W_O is the identity (needs heads * head_width = width)")
      .real("dropout", &M::dropout, fraction(), "dropout on residual branches and embeddings")
      .real("attention_dropout", &M::attention_dropout, fraction(), "dropout on attention weights")
      .real("activation_dropout", &M::activation_dropout, fraction(),
            "dropout inside feed-forward");
  return builder.build();
}

Section optimizer_section() {
  using O = OptimizerConfig;
  return SectionBuilder<O>("optimizer", &Config::optimizer, "how gradients become updates")
      .word("kind", &O::kind,
            {{"adam", OptimizerKind::kAdam},
             {"adamw", OptimizerKind::kAdamW},
             {"muon", OptimizerKind::kMuon}},
            "adamw decays weights apart from the gradient; muon: on matrices in layers, adamw else")
      .real("beta1", &O::beta1, fraction(), "decay of the mean of gradients")
      .real("beta2", &O::beta2, fraction(), "decay of the mean of squared gradients")
      .real("epsilon", &O::epsilon, above(0), "added to the divisor")
      .real("weight_decay", &O::weight_decay, at_least(0), "strength of weight decay; 0 = off")
      .real("matrix_rate", &O::matrix_rate, above(0),
            "muon: rate of the matrices in layers, times the learning rate")
      .real("momentum", &O::momentum, fraction(), "muon: decay of their mean of gradients")
      .build();
}

Section schedule_section() {
  using S = ScheduleConfig;
  return SectionBuilder<S>("schedule", &Config::schedule,
                           "learning rate as a function of the update number alone")
      .word("kind", &S::kind,
            {{"inverse_sqrt", ScheduleKind::kInverseSqrt},
             {"cosine", ScheduleKind::kCosine},
             {"linear", ScheduleKind::kLinear},
             {"constant", ScheduleKind::kConstant}},
            "shape after warm-up")
      .real("learning_rate", &S::learning_rate, above(0),
            "learning rate at the peak, when warm-up ends")
      .integer("warmup", &S::warmup, at_least(0), "updates of linear rise to the peak")
      .integer("horizon", &S::horizon, at_least(1),
               "update at which cosine and linear reach final_factor; stops never move it")
      .real("final_factor", &S::final_factor, between(0, 1),
            "share of the peak left at the horizon")
      .build();
}

Section train_section() {
  using T = TrainConfig;
  return SectionBuilder<T>("train", &Config::train, "the run; at least one stop must be set")
      .integer("seed", &T::seed, at_least(0), "seed of initial weights, data order and dropout")
      .integer("batch_tokens", &T::batch_tokens, between(1, kMost),
               "target tokens of one micro-batch, end tokens included")
      .integer("accumulate", &T::accumulate, between(1, kMost),
               "micro-batches per update; gradients are weighted by their tokens")
      .integer("shards", &T::shards, between(1, 4096),
               "parts a micro-batch is cut into, computed side by side, one thread each; 1 = all "
               "threads on one part. Results depend on it, not on the threads")
      .word("precision", &T::precision,
            {{"auto", Precision::kAuto},
             {"fp32", Precision::kFloat32},
             {"bf16", Precision::kBFloat16}},
            "of the factors of matrix products while training; weights, sums, optimiser and "
            "translating stay fp32. auto = bf16 where it is faster on this CPU, which the log says")
      .real("label_smoothing", &T::label_smoothing, fraction(),
            "share of the target that is spread over all pieces; 0 = off")
      .real("consistency", &T::consistency, at_least(0),
            "R-Drop: every pair is seen twice with other dropouts, and consistency times the mean "
            "of both divergences of the predictions joins the two losses; 0 = off")
      .real("clip_norm", &T::clip_norm, at_least(0), "longest gradient of an update; 0 = off")
      .real("ema", &T::ema, fraction(), "decay of the exponential moving average; 0 = off")
      .integer("average_last", &T::average_last, between(0, kMost),
               "at the end, average the last n checkpoints; 0 = off")
      .integer("max_steps", &T::max_steps, at_least(0), "stop after updates; 0 = no limit")
      .integer("max_epochs", &T::max_epochs, at_least(0), "stop after passes; 0 = no limit")
      .real("max_minutes", &T::max_minutes, at_least(0),
            "stop by the wall clock of this run; 0 = no limit")
      .integer("threads", &T::threads, between(0, 4096), "threads to compute with; 0 = all cores")
      .word("on_non_finite", &T::on_non_finite,
            {{"skip", OnNonFinite::kSkip}, {"stop", OnNonFinite::kStop}},
            "what to do with an update whose loss or gradient is NaN or infinite")
      .integer("max_non_finite", &T::max_non_finite, at_least(1),
               "skipped updates in a row before the run stops all the same")
      .integer("log_every", &T::log_every, at_least(1), "updates from one line to the next")
      .build();
}

Section validation_section() {
  using V = ValidationConfig;
  return SectionBuilder<V>("validation", &Config::validation, "loss and BLEU on held-out text")
      .integer("every", &V::every, at_least(0), "updates from one to the next; 0 = never")
      .flag("bleu", &V::bleu, "also translate and score")
      .flag("lowercase", &V::lowercase, "BLEU on lower-cased text")
      .word("best_by", &V::best_by, {{"loss", BestBy::kLoss}, {"bleu", BestBy::kBleu}},
            "what decides which checkpoint is the best")
      .integer("patience", &V::patience, at_least(0),
               "stop after that many validations without improvement; 0 = off")
      .integer("beam", &V::beam, between(1, 1000), "hypotheses kept while translating")
      .build();
}

Section checkpoint_section() {
  using C = CheckpointConfig;
  return SectionBuilder<C>("checkpoint", &Config::checkpoint, "what is saved")
      .integer("every", &C::every, at_least(1), "updates from one to the next")
      .integer("keep", &C::keep, between(1, kMost),
               "newest step checkpoints kept; best and last besides")
      .build();
}

Section translate_section() {
  using T = TranslateConfig;
  return SectionBuilder<T>("translate", &Config::translate,
                           "headwise translate, when the command line does not say")
      .integer("beam", &T::beam, between(1, 1000), "hypotheses kept; 1 = greedy")
      .real("length_penalty", &T::length_penalty, at_least(0),
            "exponent of the length that a score is divided by; 0 = off")
      .real("max_length_factor", &T::max_length_factor, at_least(0),
            "output pieces <= factor * source pieces + max_length_extra")
      .integer("max_length_extra", &T::max_length_extra, between(0, kMost),
               "pieces added to that limit")
      .integer("stop_after", &T::stop_after, at_least(0),
               "end a search after so many finished hypotheses; 0 = when none can improve")
      .integer("batch_tokens", &T::batch_tokens, between(1, kMost), "source tokens of one batch")
      .word("long_lines", &T::long_lines,
            {{"split", LongLines::kSplit}, {"refuse", LongLines::kRefuse}},
            "a line longer than the model's limit: translated in parts, or an error")
      .build();
}

}  // namespace

const std::vector<Section>& schema() {
  static const std::vector<Section> sections = {
      data_section(),       subword_section(),    model_section(),
      optimizer_section(),  schedule_section(),   train_section(),
      validation_section(), checkpoint_section(), translate_section()};
  return sections;
}

}  // namespace headwise::config
