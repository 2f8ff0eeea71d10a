// headwise corpus: sentence pairs of the embedded English-Korean corpus.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/config/error.h"
#include "src/data/grammar.h"

namespace headwise::cli {
namespace {

struct CorpusArguments {
  int64_t count = 20;
  uint64_t seed = 1;
  std::string split = "train";
};

const std::map<std::string, data::CorpusSplit>& splits() {
  static const std::map<std::string, data::CorpusSplit> named = {
      {"train", data::CorpusSplit::kTrain},
      {"valid", data::CorpusSplit::kValid},
      {"test", data::CorpusSplit::kTest},
      {"longer", data::CorpusSplit::kLonger}};
  return named;
}

int print_corpus(const CorpusArguments& arguments) {
  data::EmbeddedStream stream(splits().at(arguments.split), arguments.seed);
  for (int64_t i = 0; i < arguments.count; ++i) {
    const data::SentencePair pair = stream.next();
    print(pair.source + '\t' + pair.target + '\n');
  }
  return kExitOk;
}

}  // namespace

void add_corpus(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CorpusArguments>();
  CLI::App* command = app.add_subcommand(
      "corpus", "Print pairs of the built-in English-Korean corpus: English, a tab, Korean");
  command->add_option("--count", arguments->count, "number of pairs")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, data::kMostEmbeddedPairs));
  command->add_option("--seed", arguments->seed, "another seed gives other pairs")
      ->capture_default_str();
  command
      ->add_option("--split", arguments->split,
                   "train, valid, test, or longer (more words than any training sentence)")
      ->capture_default_str()
      ->check(CLI::IsMember(splits()));
  command->callback(
      [arguments, &action] { action = [arguments] { return print_corpus(*arguments); }; });
}

}  // namespace headwise::cli
