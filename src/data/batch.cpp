#include "src/data/batch.h"

#include <algorithm>
#include <cstddef>

namespace headwise::data {
namespace {

int64_t tokens_before(const Batch& batch, int64_t sentence) {
  return batch.source.starts[size_t(sentence)] + batch.target.starts[size_t(sentence)];
}

Packed part_of(const Packed& packed, int64_t begin, int64_t end) {
  const int32_t first = packed.starts[size_t(begin)], last = packed.starts[size_t(end)];
  Packed part;
  part.tokens.assign(packed.tokens.begin() + first, packed.tokens.begin() + last);
  part.positions.assign(packed.positions.begin() + first, packed.positions.begin() + last);
  for (int64_t i = begin; i <= end; ++i) {
    part.starts.push_back(packed.starts[size_t(i)] - first);
    if (i > begin) {
      part.longest =
          std::max<int64_t>(part.longest, packed.starts[size_t(i)] - packed.starts[size_t(i - 1)]);
    }
  }
  return part;
}

template <typename T>
void repeat(std::vector<T>& values) {
  const size_t count = values.size();
  values.resize(2 * count);
  std::copy_n(values.begin(), count, values.begin() + std::ptrdiff_t(count));
}

void repeat(Packed& packed) {
  repeat(packed.tokens);
  repeat(packed.positions);
  const int32_t all = packed.starts.back();
  const size_t sentences = packed.starts.size() - 1;
  for (size_t i = 1; i <= sentences; ++i) packed.starts.push_back(all + packed.starts[i]);
}

}  // namespace

std::vector<Batch> split(const Batch& batch, int64_t parts) {
  const int64_t sentences = batch.size(), all = tokens_before(batch, sentences);
  std::vector<Batch> result;
  int64_t begin = 0;
  for (int64_t n = 1; n <= parts && begin < sentences; ++n) {
    int64_t end = begin;
    while (end < sentences && tokens_before(batch, end) * parts < all * n) ++end;
    if (end == begin) continue;
    Batch part;
    part.source = part_of(batch.source, begin, end);
    part.target = part_of(batch.target, begin, end);
    const int64_t first = batch.target.starts[size_t(begin)];
    part.labels.assign(batch.labels.begin() + first,
                       batch.labels.begin() + batch.target.starts[size_t(end)]);
    part.lines.assign(batch.lines.begin() + begin, batch.lines.begin() + end);
    result.push_back(std::move(part));
    begin = end;
  }
  return result;
}

Batch twice(const Batch& batch) {
  Batch result = batch;
  repeat(result.source);
  repeat(result.target);
  repeat(result.labels);
  repeat(result.lines);
  return result;
}

}  // namespace headwise::data
