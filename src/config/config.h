// Everything a run can be told, as plain structs with their defaults. The TOML keys are the member
// names: [data] train_source is Config::data.train_source. Key by key help stands in schema.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headwise::config {

enum class DataKind { kFiles, kEmbedded };
enum class SubwordType { kUnigram, kBpe };
enum class NormPlacement { kPre, kPost };
enum class Activation { kRelu, kGelu };
enum class Positions { kSinusoidal, kRotary };
enum class Embeddings { kShared, kSeparate };
enum class OptimizerKind { kAdam, kAdamW, kMuon };
enum class ScheduleKind { kInverseSqrt, kCosine, kLinear, kConstant };
enum class BestBy { kLoss, kBleu };
enum class OnNonFinite { kSkip, kStop };
enum class LongLines { kSplit, kRefuse };
enum class Precision { kAuto, kFloat32, kBFloat16 };

/// [data]: where the sentence pairs come from.
struct DataConfig {
  DataKind kind = DataKind::kFiles;
  std::string root;  // put before relative paths below
  std::string train_source, train_target;
  std::string valid_source, valid_target;
  int64_t max_length = 256;     // pieces of one side, end token included; longer pairs are dropped
  double max_length_ratio = 0;  // pieces of the longer side over the shorter; 0 = any
  int64_t embedded_pairs = 20000;  // kind "embedded": training pairs drawn from the grammar
  int64_t embedded_valid = 500;
  int64_t embedded_seed = 1;
};

/// [subword]: SentencePiece models, trained from the training text unless given.
struct SubwordConfig {
  bool joint = true;          // one model for both languages
  int64_t vocabulary = 4000;  // pieces; of each model when separate
  SubwordType type = SubwordType::kUnigram;
  std::string normalization =
      "nmt_nfkc";  // nmt_nfkc, nmt_nfkc_cf (folds case), nfkc, nfkc_cf, identity
  double character_coverage = 1.0;
  bool byte_fallback = false;
  double source_dropout = 0, target_dropout = 0;  // BPE-dropout on training text
  std::string model;                       // joint = true: a model to use instead of training one
  std::string source_model, target_model;  // joint = false: likewise
  bool trust_model = false;  // use a given model although the installed SentencePiece is < 0.2.1
};

/// [model]: the Transformer. Head counts hold one number for all layers or one per layer.
struct ModelConfig {
  int64_t width = 128;  // E
  int64_t feed_forward = 256;
  int64_t encoder_layers = 4, decoder_layers = 4;
  std::vector<int64_t> encoder_heads = {4}, encoder_kv_heads = {};  // empty kv list: as the heads
  std::vector<int64_t> decoder_heads = {4}, decoder_kv_heads = {};
  std::vector<int64_t> cross_heads = {4}, cross_kv_heads = {};
  int64_t head_width = 0;  // 0: width / heads
  NormPlacement norm = NormPlacement::kPre;
  Activation activation = Activation::kRelu;
  Positions positions = Positions::kSinusoidal;
  Embeddings embeddings = Embeddings::kShared;  // shared needs a joint subword model
  bool tied_output = true;                      // output layer = target embedding
  bool attention_bias = true;                   // biases of W_Q, W_K, W_V, W_O
  bool output_projection = true;  // false: W_O is the identity (needs heads * head_width == width)
  double dropout = 0.1;           // on residual branches and embeddings
  double attention_dropout = 0.0, activation_dropout = 0.0;
};

/// [optimizer]
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdam;
  double beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9, weight_decay = 0.0;
  // Muon's matrices: their rate as a multiple of the learning rate, and their momentum.
  double matrix_rate = 7.0, momentum = 0.95;
};

/// [schedule]: learning rate as a pure function of the update number.
struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kInverseSqrt;
  double learning_rate = 0.003;  // at the peak, reached when warm-up ends
  int64_t warmup = 400;          // updates
  int64_t horizon =
      10000;  // updates at which cosine and linear reach final_factor; never moved by stops
  double final_factor = 0.0;  // of the peak
};

/// [train]
struct TrainConfig {
  int64_t seed = 1;
  int64_t batch_tokens = 2000;  // target tokens of one micro-batch, end tokens included
  int64_t accumulate = 1;       // micro-batches per update; gradients weighted by their tokens
  int64_t shards = 2;           // parts of a micro-batch that are computed side by side
  Precision precision = Precision::kAuto;  // of the factors of products; the rest is float32
  double label_smoothing = 0.1;
  double consistency = 0.0;
  double clip_norm = 1.0;                 // 0 = off
  double ema = 0.0;                       // decay of the exponential moving average; 0 = off
  int64_t average_last = 0;               // at the end: mean of the last n checkpoints; 0 = off
  int64_t max_steps = 0, max_epochs = 0;  // stop; 0 = no limit
  double max_minutes = 0;                 // stop; wall clock of this run, 0 = no limit
  int64_t threads = 0;                    // 0 = all cores
  OnNonFinite on_non_finite = OnNonFinite::kSkip;
  int64_t max_non_finite = 10;  // consecutive skipped updates before the run stops all the same
  int64_t log_every = 50;       // updates
};

/// [validation]
struct ValidationConfig {
  int64_t every = 500;     // updates; 0 = never
  bool bleu = true;        // also translate and score
  bool lowercase = false;  // BLEU on lower-cased text
  BestBy best_by = BestBy::kBleu;
  int64_t patience = 0;  // validations without improvement before stopping; 0 = off
  int64_t beam = 1;
};

/// [checkpoint]
struct CheckpointConfig {
  int64_t every = 500;  // updates
  int64_t keep = 3;     // newest step checkpoints kept, best and last besides
};

/// [translate]: what `headwise translate` does when the command line does not say.
struct TranslateConfig {
  int64_t beam = 5;
  double length_penalty = 1.0;     // exponent of the length the score is divided by
  double max_length_factor = 2.0;  // output pieces <= factor * source pieces + max_length_extra
  int64_t max_length_extra = 10;
  int64_t stop_after = 0;  // finished hypotheses; 0 = until none can improve
  int64_t batch_tokens = 2000;
  LongLines long_lines = LongLines::kSplit;
};

struct Config {
  DataConfig data;
  SubwordConfig subword;
  ModelConfig model;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainConfig train;
  ValidationConfig validation;
  CheckpointConfig checkpoint;
  TranslateConfig translate;
};

}  // namespace headwise::config
