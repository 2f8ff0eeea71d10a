// SentencePiece behind a small face: text -> ids -> text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/data/batch.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace headwise::data {

/// Name and version of the library, on which pieces depend.
std::string subword_library();

/// One SentencePiece model. Special ids are read from the model, never assumed.
class Subword {
 public:
  /// @throws UserError if the bytes are no SentencePiece model or a special id (pad, bos, eos, unk)
  ///   is missing; the message names the training flag that adds it. `name` stands for the model.
  static Subword from_bytes(const std::string& bytes, const std::string& name);
  /// @throws UserError also if the installed SentencePiece is older than 0.2.1 and so may read past
  ///   the ends of crafted model files, unless the caller says that the file is `trusted`.
  static Subword from_file(const std::filesystem::path& path, bool trusted);
  /// Trains on `lines` (deterministic; one thread). Ids: pad 0, unk 1, bos 2, eos 3.
  /// @throws UserError if the text cannot give that many pieces (says how many it can).
  static Subword train(const std::vector<const std::vector<std::string>*>& texts,
                       const config::SubwordConfig& options);

  /// Pieces of one line, without bos or eos. Literal "</s>" in text is text.
  Ids encode(const std::string& line) const;
  /// Pieces of lines with BPE-dropout (Provilkov et al. 2020): each merge is left out with chance
  /// `dropout`, in [0, 1). A function of (model, lines, dropout, seed) alone. Needs kind() "bpe".
  std::vector<Ids> sample(const std::vector<std::string>& lines, double dropout,
                          uint32_t seed) const;
  /// "bpe", "unigram", or "word or char".
  std::string kind() const;
  /// Text of ids; control ids are skipped.
  std::string decode(const Ids& ids) const;
  std::string piece(int32_t id) const;

  int64_t size() const;
  int32_t pad() const;
  int32_t unk() const;
  int32_t bos() const;
  int32_t eos() const;
  const std::string& bytes() const {
    return *bytes_;
  }  // serialised model, goes into the checkpoint

 private:
  std::shared_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::shared_ptr<const std::string> bytes_;
};

/// The pair of models a translation model lives with; `target` is `source` when they are joint.
struct Vocabularies {
  Subword source, target;
  bool joint = true;
};

}  // namespace headwise::data
