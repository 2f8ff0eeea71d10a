#include "src/data/subword.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <future>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "src/config/error.h"
#include "src/data/unicode.h"

namespace headwise::data {
namespace {

constexpr int64_t kMaxTrainingBytes = 4192;  // SentencePiece leaves longer lines out of training

/// Walks the visible lines of several texts.
class LineIterator : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const std::vector<const std::vector<std::string>*>& texts) : texts_(texts) {
    skip_unusable();
  }
  bool done() const override { return text_ == texts_.size(); }
  void Next() override {
    ++line_;
    skip_unusable();
  }
  const std::string& value() const override { return (*texts_[text_])[line_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  /// U+2585 stands for "unknown" inside SentencePiece, which leaves out lines that hold it.
  static bool usable(const std::string& line) {
    return static_cast<int64_t>(line.size()) <= kMaxTrainingBytes && !is_blank(line) &&
           line.find("\xE2\x96\x85") == std::string::npos;
  }

  void skip_unusable() {
    for (; text_ < texts_.size(); ++text_, line_ = 0) {
      for (; line_ < texts_[text_]->size(); ++line_) {
        if (usable(value())) return;
      }
    }
  }

  const std::vector<const std::vector<std::string>*>& texts_;
  size_t text_ = 0, line_ = 0;
};

std::unordered_map<std::string, std::string> training_flags(const config::SubwordConfig& options) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  return {
      {"model_type", options.type == config::SubwordType::kBpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.vocabulary)},
      {"normalization_rule_name", options.normalization},
      {"character_coverage", text_of(options.character_coverage)},
      {"byte_fallback", flag(options.byte_fallback)},
      {"max_sentence_length", std::to_string(kMaxTrainingBytes)},
      {"pad_id", "0"},
      {"unk_id", "1"},
      {"bos_id", "2"},
      {"eos_id", "3"},
      {"num_threads", "1"},  // the result must not hang on how threads interleave
      {"minloglevel", "3"},
  };
}

/// The number that follows `words` in `message`.
std::optional<int64_t> number_after(const std::string& message, std::string_view words) {
  const size_t found = message.find(words);
  if (found == std::string::npos) return std::nullopt;
  long long number = 0;
  if (std::sscanf(message.c_str() + found + words.size(), "%lld", &number) != 1)
    return std::nullopt;
  return number;
}

/// SentencePiece tells sizes only inside its messages.
[[noreturn]] void fail_training(const config::SubwordConfig& options, const std::string& message) {
  if (const auto most = number_after(message, "Please set it to a value <= ")) {
    throw UserError(text_of("subword.vocabulary = ", options.vocabulary,
                            " is too large: this text gives at most ", *most,
                            " pieces; lower subword.vocabulary to ", *most, " or less"));
  }
  const auto wanted = text_of("required_chars. ", options.vocabulary, " vs ");
  if (const auto least = number_after(message, wanted)) {
    throw UserError(text_of("subword.vocabulary = ", options.vocabulary,
                            " is too small: the characters of this text and the special pieces "
                            "alone need ",
                            *least, "; raise subword.vocabulary to ", *least,
                            " or more, or lower subword.character_coverage (now ",
                            options.character_coverage, ")"));
  }
  throw UserError(text_of("SentencePiece cannot train a model (subword.vocabulary = ",
                          options.vocabulary, "): ", message));
}

struct SpecialId {
  const char* name;
  const char* flag;
  int id;
};

/// Refuses a model in which a special piece is not defined (SentencePiece says -1).
void require_special_ids(const sentencepiece::SentencePieceProcessor& processor,
                         const std::string& name) {
  const SpecialId all[] = {{"padding (<pad>)", "--pad_id=0", processor.pad_id()},
                           {"unknown (<unk>)", "--unk_id=1", processor.unk_id()},
                           {"begin (<s>)", "--bos_id=2", processor.bos_id()},
                           {"end (</s>)", "--eos_id=3", processor.eos_id()}};
  std::string missing, flags;
  for (const SpecialId& special : all) {
    if (special.id < 0) missing += text_of(missing.empty() ? "" : ", ", special.name);
    flags += text_of(" ", special.flag);
  }
  if (missing.empty()) return;
  throw UserError(text_of(name, ": the SentencePiece model has no piece for ", missing,
                          "; train it again with spm_train", flags));
}

/// A BPE model whose control piece is a single character ("$") takes that character of text for it
/// and fails; every other control piece is safe from text.
void require_text_is_text(const sentencepiece::SentencePieceProcessor& processor,
                          const std::string& name) {
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (!processor.IsControl(id)) continue;
    std::vector<int> ids;
    const bool encoded = processor.Encode(processor.IdToPiece(id), &ids).ok();
    if (encoded && std::find(ids.begin(), ids.end(), id) == ids.end()) continue;
    throw UserError(text_of(name, ": the SentencePiece model takes the text \"",
                            processor.IdToPiece(id), "\" for a control piece; train it again with ",
                            "a longer name for that piece, such as </s>"));
  }
}

/// 0.2.1 is the first release that rejects crafted model files instead of reading past their ends.
bool library_checks_models() {
  int major = 0, minor = 0, patch = 0;
  std::sscanf(HEADWISE_SENTENCEPIECE_VERSION, "%d.%d.%d", &major, &minor, &patch);
  return std::tie(major, minor, patch) >= std::make_tuple(0, 2, 1);
}

void require_piece(const sentencepiece::SentencePieceProcessor& processor, int32_t id) {
  if (id >= 0 && id < processor.GetPieceSize()) return;
  throw std::out_of_range(text_of("piece ", id, " of a vocabulary of ", processor.GetPieceSize()));
}

}  // namespace

std::string subword_library() { return "SentencePiece " HEADWISE_SENTENCEPIECE_VERSION; }

Subword Subword::from_bytes(const std::string& bytes, const std::string& name) {
  auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(bytes);
  if (!status.ok() || processor->GetPieceSize() == 0) {
    throw UserError(text_of(name, ": is no SentencePiece model",
                            status.ok() ? "" : text_of(" (", status.message(), ")")));
  }
  require_special_ids(*processor, name);
  require_text_is_text(*processor, name);
  Subword subword;
  subword.processor_ = std::move(processor);
  subword.bytes_ = std::make_shared<const std::string>(bytes);
  return subword;
}

Subword Subword::from_file(const std::filesystem::path& path, bool trusted) {
  if (!trusted && !library_checks_models()) {
    throw UserError(text_of(path.string(), ": this build uses ", subword_library(),
                            ", which a crafted model file can make read or write outside its "
                            "memory (mended in 0.2.1). If you made the file yourself or trust who "
                            "did, say so with --set subword.trust_model=true"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    throw UserError(text_of(path.string(), ": the SentencePiece model cannot be opened"));
  }
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return from_bytes(bytes, path.string());
}

Subword Subword::train(const std::vector<const std::vector<std::string>*>& texts,
                       const config::SubwordConfig& options) {
  LineIterator lines(texts);
  if (lines.done()) {
    throw UserError(
        text_of("no line to train a SentencePiece model on: every line is blank or "
                "longer than ",
                kMaxTrainingBytes, " bytes"));
  }
  std::string model;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(training_flags(options), &lines, &model);
  if (!status.ok()) fail_training(options, status.ToString());
  return from_bytes(model, "the trained model");
}

Ids Subword::encode(const std::string& line) const {
  std::vector<int> found;
  const auto status = processor_->Encode(line, &found);
  if (!status.ok()) throw std::runtime_error(text_of("SentencePiece: ", status.message()));
  return {found.begin(), found.end()};
}

std::vector<Ids> Subword::sample(const std::vector<std::string>& lines, double dropout,
                                 uint32_t seed) const {
  // SentencePiece keeps a generator for each thread, seeded by one number of the process when the
  // thread first draws, and takes the largest number for "none". So each call needs a thread that
  // has not drawn yet, and calls go one after another.
  static std::mutex one_call;
  const std::lock_guard<std::mutex> lock(one_call);
  sentencepiece::SetRandomGeneratorSeed(seed % std::numeric_limits<uint32_t>::max());
  const auto draw = [&] {
    constexpr int kAllSegmentations = -1;
    std::vector<Ids> pieces;
    pieces.reserve(lines.size());
    std::vector<int> found;
    for (const std::string& line : lines) {
      const auto status =
          processor_->SampleEncode(line, kAllSegmentations, static_cast<float>(dropout), &found);
      if (!status.ok()) throw std::runtime_error(text_of("SentencePiece: ", status.message()));
      pieces.emplace_back(found.begin(), found.end());
    }
    return pieces;
  };
  return std::async(std::launch::async, draw).get();
}

// SentencePiece tells the kind of a model only by what it can do with text.
std::string Subword::kind() const {
  std::vector<std::vector<int>> best;
  if (processor_->NBestEncode("a", 1, &best).ok()) return "unigram";
  std::vector<int> found;
  return processor_->SampleEncode("a", -1, 0, &found).ok() ? "bpe" : "word or char";
}

std::string Subword::decode(const Ids& ids) const {
  for (const int32_t id : ids) require_piece(*processor_, id);
  std::string text;  // SentencePiece leaves control ids out by itself
  const auto status = processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  if (!status.ok()) throw std::runtime_error(text_of("SentencePiece: ", status.message()));
  return text;
}

std::string Subword::piece(int32_t id) const {
  require_piece(*processor_, id);
  return processor_->IdToPiece(id);
}

int64_t Subword::size() const { return processor_->GetPieceSize(); }
int32_t Subword::pad() const { return processor_->pad_id(); }
int32_t Subword::unk() const { return processor_->unk_id(); }
int32_t Subword::bos() const { return processor_->bos_id(); }
int32_t Subword::eos() const { return processor_->eos_id(); }

}  // namespace headwise::data
