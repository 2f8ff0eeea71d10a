#include "src/evaluate/line_parts.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cpp/evaluate/support.h"

namespace headwise::evaluate {
namespace {

using testing::sentence;
using testing::vocabularies;

enum class Place { kMiddle, kWordEnd, kSentenceEnd };

/// What kind of place a cut before ids[i] is, read off the text of the pieces.
Place place_before(const data::Ids& ids, size_t i) {
  const data::Subword& subword = vocabularies().source;
  if (subword.piece(ids[i]).rfind("\u2581", 0) != 0) return Place::kMiddle;
  const std::string before = subword.piece(ids[i - 1]);
  return before.back() == '.' ? Place::kSentenceEnd : Place::kWordEnd;
}

TEST(LineParts, AShortLineIsOnePart) {
  const std::string line = sentence(6, 1);
  const data::Ids ids = vocabularies().source.encode(line);
  for (const int64_t limit : {int64_t(ids.size()), int64_t(ids.size()) + 1, int64_t{1000}}) {
    EXPECT_EQ(parts_of(line, vocabularies().source, limit), std::vector<data::Ids>{ids});
  }
}

TEST(LineParts, AnEmptyLineIsOneEmptyPart) {
  EXPECT_EQ(parts_of("", vocabularies().source, 3), std::vector<data::Ids>{{}});
}

TEST(LineParts, NothingIsLostAndNoPartIsTooLong) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const std::string line = sentence(1 + seed, seed);
    const data::Ids ids = vocabularies().source.encode(line);
    for (int64_t limit = 1; limit <= 25; ++limit) {
      data::Ids joined;
      for (const data::Ids& part : parts_of(line, vocabularies().source, limit)) {
        EXPECT_GE(part.size(), 1u);
        EXPECT_LE(part.size(), size_t(limit));
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_EQ(joined, ids);
    }
  }
}

TEST(LineParts, CutsAtTheLastSentenceEndElseTheLastWordEndElseAtTheLimit) {
  int seen[3] = {};
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const std::string line = sentence(30, seed);
    const data::Ids ids = vocabularies().source.encode(line);
    for (const size_t limit : {1, 2, 4, 7, 12, 20}) {
      size_t begin = 0;
      for (const data::Ids& part : parts_of(line, vocabularies().source, int64_t(limit))) {
        const size_t end = begin + part.size();
        if (end == ids.size()) break;
        const Place found = place_before(ids, end);
        ++seen[int(found)];
        // Every place beyond the cut, and every one before it, is worse than the cut.
        for (size_t i = begin + 1; i <= begin + limit && i < ids.size(); ++i) {
          const Place other = place_before(ids, i);
          EXPECT_TRUE(i <= end ? other <= found : other < found) << "piece " << i << " of " << line;
        }
        if (found == Place::kMiddle) {
          EXPECT_EQ(part.size(), limit);
        }
        begin = end;
      }
    }
  }
  for (const int count : seen) EXPECT_GT(count, 0) << "a kind of cut that never came up";
}

}  // namespace
}  // namespace headwise::evaluate
