// The embedded corpus as a whole: properties checked on the text alone, without the grammar's help.
#include "src/data/grammar.h"

#include <gtest/gtest.h>
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "src/config/error.h"

namespace headwise::data {
namespace {

constexpr int64_t kTrainPairs = 20000;

const EmbeddedCorpus& corpus() {
  static const EmbeddedCorpus made = embedded_corpus(kTrainPairs, 500, 1000, 300, 1);
  return made;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    while (!word.empty() && std::string(".,?").find(word.back()) != std::string::npos) {
      word.pop_back();
    }
    if (word.ends_with("'s")) word.resize(word.size() - 2);
    words.push_back(word);
  }
  return words;
}

std::map<std::string, int> count_words(const std::vector<SentencePair>& pairs,
                                       std::string SentencePair::*side) {
  std::map<std::string, int> counts;
  for (const SentencePair& pair : pairs) {
    for (const std::string& word : words_of(pair.*side)) ++counts[word];
  }
  return counts;
}

std::set<std::string> sources(const std::vector<SentencePair>& pairs) {
  std::set<std::string> texts;
  for (const SentencePair& pair : pairs) texts.insert(pair.source);
  return texts;
}

/// All matches of `pattern`, sorted.
std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found(std::sregex_token_iterator(text.begin(), text.end(), pattern),
                                 std::sregex_token_iterator());
  std::sort(found.begin(), found.end());
  return found;
}

/// Share of pairs with a word of the source that the sources of `training` lack.
double share_with_unseen_word(const std::vector<SentencePair>& pairs,
                              const std::vector<SentencePair>& training) {
  const auto known = count_words(training, &SentencePair::source);
  const auto unseen = std::ranges::count_if(pairs, [&](const SentencePair& pair) {
    return std::ranges::any_of(words_of(pair.source),
                               [&](const std::string& word) { return !known.contains(word); });
  });
  return static_cast<double>(unseen) / static_cast<double>(pairs.size());
}

std::vector<const std::vector<SentencePair>*> all_splits() {
  return {&corpus().train, &corpus().valid, &corpus().test, &corpus().longer};
}

TEST(EmbeddedCorpus, IsAFunctionOfSplitSeedAndIndex) {
  const auto same = [](const SentencePair& a, const SentencePair& b) {
    return a.source == b.source && a.target == b.target;
  };
  for (const CorpusSplit split :
       {CorpusSplit::kTrain, CorpusSplit::kValid, CorpusSplit::kTest, CorpusSplit::kLonger}) {
    const auto pairs = embedded_split(split, 200, 7);
    const auto more = embedded_split(split, 300, 7);
    EXPECT_TRUE(std::ranges::equal(pairs, std::span(more).first(200), same));
    const auto others = embedded_split(split, 200, 8);
    EXPECT_FALSE(std::ranges::equal(pairs, others, same));
    EmbeddedStream stream(split, 7);
    for (const SentencePair& pair : pairs) EXPECT_TRUE(same(pair, stream.next()));
  }
}

TEST(EmbeddedCorpus, HasTheSizesAskedFor) {
  EXPECT_EQ(corpus().train.size(), kTrainPairs);
  EXPECT_EQ(corpus().valid.size(), 500u);
  EXPECT_EQ(corpus().test.size(), 1000u);
  EXPECT_EQ(corpus().longer.size(), 300u);
  EXPECT_TRUE(embedded_split(CorpusSplit::kTest, 0, 1).empty());
  EXPECT_THROW(embedded_split(CorpusSplit::kTest, -1, 1), UserError);
  EXPECT_THROW(embedded_split(CorpusSplit::kTest, kMostEmbeddedPairs + 1, 1), UserError);
}

TEST(EmbeddedCorpus, SplitsAreDisjointWhateverTheSeed) {
  std::set<std::string> training;
  for (const uint64_t seed : {1, 2, 3}) {
    training.merge(sources(embedded_split(CorpusSplit::kTrain, kTrainPairs, seed)));
  }
  const auto valid = sources(corpus().valid), test = sources(corpus().test);
  EXPECT_EQ(valid.size(), 500u);  // none twice
  EXPECT_EQ(test.size(), 1000u);
  for (const auto* held : {&valid, &test}) {
    for (const std::string& text : *held) EXPECT_FALSE(training.contains(text)) << text;
  }
  for (const std::string& text : valid) EXPECT_FALSE(test.contains(text)) << text;
}

TEST(EmbeddedCorpus, ManyTestPairsHoldAnUnseenNameOrNumber) {
  EXPECT_GE(share_with_unseen_word(corpus().test, corpus().train), 0.5);
  EXPECT_GE(share_with_unseen_word(corpus().longer, corpus().train), 0.5);
  // Also when the training text is four times as long, and of another seed.
  const auto large = embedded_split(CorpusSplit::kTrain, 4 * kTrainPairs, 5);
  EXPECT_GE(share_with_unseen_word(corpus().test, large), 0.5);
}

TEST(EmbeddedCorpus, LongerSentencesAreLongerThanAnyOther) {
  const auto longest = [](const std::vector<SentencePair>& pairs) {
    size_t words = 0;
    for (const SentencePair& pair : pairs) words = std::max(words, words_of(pair.source).size());
    return words;
  };
  const auto limit = static_cast<size_t>(kLongestEmbeddedSentence);
  EXPECT_EQ(longest(corpus().train), limit);
  EXPECT_LE(longest(corpus().valid), limit);
  EXPECT_LE(longest(corpus().test), limit);
  for (const SentencePair& pair : corpus().longer) {
    EXPECT_GT(words_of(pair.source).size(), limit) << pair.source;
  }
}

TEST(EmbeddedCorpus, OneReferencePerSource) {
  std::map<std::string, std::string> reference;
  for (const uint64_t seed : {11, 12, 13, 14, 15}) {
    for (const SentencePair& pair : embedded_split(CorpusSplit::kTrain, 20000, seed)) {
      const auto [at, fresh] = reference.emplace(pair.source, pair.target);
      EXPECT_EQ(at->second, pair.target) << pair.source;
    }
  }
}

TEST(EmbeddedCorpus, NamesAndDigitsAreCopied) {
  const std::regex digits("[0-9]+"), latin("[A-Za-z]+");
  for (const auto* split : all_splits()) {
    for (const SentencePair& pair : *split) {
      EXPECT_EQ(matches(pair.source, digits), matches(pair.target, digits)) << pair.source;
      const auto from = matches(pair.source, latin), to = matches(pair.target, latin);
      EXPECT_TRUE(std::ranges::includes(from, to)) << pair.source << " | " << pair.target;
    }
  }
}

TEST(EmbeddedCorpus, EnglishIsWellFormed) {
  const std::regex shape("[A-Z0-9][A-Za-z0-9' ,]*[A-Za-z0-9][.?]"),
      bad("  | ,|\\ba [aeiou]|\\ban [^aeiou]");
  const auto counts = count_words(corpus().train, &SentencePair::source);
  for (const auto* split : all_splits()) {
    for (const SentencePair& pair : *split) {
      EXPECT_TRUE(std::regex_match(pair.source, shape)) << pair.source;
      EXPECT_FALSE(std::regex_search(pair.source, bad)) << pair.source;
      EXPECT_EQ(pair.source.back(), pair.target.back());
    }
  }
  // Inside a sentence a capital means a name (or I), and no name is a word.
  for (const SentencePair& pair : corpus().train) {
    const auto words = words_of(pair.source);
    for (size_t i = 1; i < words.size(); ++i) {
      if (!std::isupper(static_cast<unsigned char>(words[i][0])) || words[i] == "I") continue;
      std::string lower = words[i];
      lower[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(lower[0])));
      EXPECT_FALSE(counts.contains(lower)) << pair.source;
    }
  }
}

TEST(EmbeddedCorpus, EveryWordIsSeenOftenEnoughToBeLearnt) {
  const auto counts = count_words(corpus().train, &SentencePair::source);
  size_t vocabulary = 0;
  for (const auto& [word, n] : counts) {
    if (!std::islower(static_cast<unsigned char>(word[0]))) continue;
    ++vocabulary;
    EXPECT_GE(n, 10) << word;
  }
  EXPECT_GE(vocabulary, 250u);
  EXPECT_LE(vocabulary, 450u);
  for (const auto& [word, n] : count_words(corpus().test, &SentencePair::source)) {
    if (std::islower(static_cast<unsigned char>(word[0]))) {
      EXPECT_TRUE(counts.contains(word)) << word;
    }
  }
}

/// The reading of the end of a word: 'v' vowel, 'c' consonant, 'l' ㄹ.
char ending(const std::string& word) {
  static const std::map<char, char> table = {
      {'0', 'c'}, {'1', 'l'}, {'2', 'v'}, {'3', 'c'}, {'4', 'v'}, {'5', 'v'}, {'6', 'c'},
      {'7', 'l'}, {'8', 'l'}, {'9', 'v'}, {'a', 'v'}, {'e', 'v'}, {'i', 'v'}, {'o', 'v'},
      {'u', 'v'}, {'k', 'c'}, {'l', 'l'}, {'m', 'c'}, {'n', 'c'}, {'r', 'v'}, {'s', 'v'}};
  if (table.contains(word.back())) return table.at(word.back());
  UErrorCode status = U_ZERO_ERROR;
  const icu::UnicodeString jamo = icu::Normalizer2::getNFDInstance(status)->normalize(
      icu::UnicodeString::fromUTF8(word), status);
  const UChar32 last = jamo.char32At(jamo.length() - 1);
  return last == 0x11AF ? 'l' : last >= 0x11A8 && last <= 0x11C2 ? 'c' : 'v';
}

/// Whether a particle after `stem` can be judged: a name, a number, or a noun or counter below.
bool is_noun(std::string stem) {
  static const std::set<std::string> nouns = {
      "학생",   "의사", "친구",   "농부", "아이",   "간호사", "작가", "가수", "요리사", "화가",
      "군인",   "이웃", "상인",   "곰",   "고양이", "토끼",   "여우", "오리", "사과",   "복숭아",
      "감자",   "달걀", "과자",   "빵",   "고기",   "밥",     "물",   "우유", "커피",   "책",
      "편지",   "신문", "이야기", "노래", "컵",     "모자",   "연필", "열쇠", "공",     "꽃",
      "표",     "지도", "우산",   "가방", "상자",   "의자",   "탁자", "시계", "창문",   "자동차",
      "자전거", "버스", "기차",   "학교", "도서관", "병원",   "역",   "집",   "마을",   "도시",
      "공원",   "시장", "부엌",   "정원", "바닷가", "숲",     "권",   "통",   "장",     "쪽",
      "사무실", "명",   "마리",   "자루", "송이"};
  if (!stem.empty() && std::isalnum(static_cast<unsigned char>(stem.back()))) return true;
  stem.erase(0, std::min(stem.find_first_not_of("0123456789"), stem.size()));
  return nouns.contains(stem);
}

TEST(EmbeddedCorpus, ParticlesFitTheWordsTheyFollow) {
  const std::vector<std::pair<std::string, std::string>> allowed = {
      {"으로", "c"}, {"로", "vl"}, {"은", "cl"}, {"는", "v"},  {"이", "cl"},
      {"가", "v"},   {"을", "cl"}, {"를", "v"},  {"과", "cl"}, {"와", "v"}};
  std::map<std::string, int> seen;
  for (const SentencePair& pair : corpus().train) {
    for (const std::string& word : words_of(pair.target)) {
      for (const auto& [particle, endings] : allowed) {
        if (!word.ends_with(particle)) continue;
        const std::string stem = word.substr(0, word.size() - particle.size());
        if (!is_noun(stem)) continue;
        ++seen[particle];
        EXPECT_NE(endings.find(ending(stem)), std::string::npos) << word << " in " << pair.target;
      }
    }
  }
  for (const auto& [particle, endings] : allowed) EXPECT_GE(seen[particle], 50) << particle;
}

}  // namespace
}  // namespace headwise::data
