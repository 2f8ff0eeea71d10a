#include "csrc/ops/positions.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace headwise::ops {

namespace {

const int64_t* numbers(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<int64_t>() : nullptr;
}

at::Tensor read_starts(const char* name, const at::Tensor& tensor, int64_t rows) {
  const at::Tensor starts = tensor.to(at::kLong).contiguous();
  const int64_t* start = numbers(starts);
  for (int64_t b = 0; b < starts.numel(); ++b) {
    const int64_t least = b == 0 ? 0 : start[b - 1];
    TORCH_CHECK_VALUE(start[b] >= least && start[b] <= rows, "attention_packed: ", name, "[", b,
                      "] is ", start[b], "; it must be at least ", least,
                      b == 0 ? "" : " (the start before it)", " and at most ", rows,
                      ", the rows there are");
  }
  return starts;
}

int64_t longest(const at::Tensor& starts) {
  const int64_t* start = numbers(starts);
  int64_t rows = 0;
  for (int64_t b = 0; b + 1 < starts.numel(); ++b) rows = std::max(rows, start[b + 1] - start[b]);
  return rows;
}

void check_covers(const char* name, const OptionalTensor& tensor,
                  const kernels::Sequences& sequences) {
  if (!tensor.has_value()) return;
  const auto covers = [&](int64_t from_last, int64_t rows) {
    const int64_t size = tensor->size(tensor->dim() - from_last);
    return size == 1 || size >= rows;
  };
  TORCH_CHECK_VALUE(covers(2, sequences.query_rows) && covers(1, sequences.key_rows),
                    "attention_packed: ", name, " has shape ", tensor->sizes(),
                    "; its last two dimensions must be 1 or at least the longest sequences, ",
                    sequences.query_rows, " queries and ", sequences.key_rows, " keys");
}

bool leaves_out(const at::Tensor& starts, int64_t rows) {
  if (!starts.defined()) return false;
  const int64_t* start = numbers(starts);
  return start[0] != 0 || start[starts.numel() - 1] != rows;
}

}  // namespace

bool Positions::leaves_queries_out(int64_t rows) const { return leaves_out(query_starts, rows); }
bool Positions::leaves_keys_out(int64_t rows) const { return leaves_out(key_starts, rows); }

at::Tensor read_lengths(const char* name, const at::Tensor& tensor, int64_t limit) {
  const at::Tensor lengths = tensor.to(at::kLong).contiguous();
  const int64_t* length = numbers(lengths);
  for (int64_t b = 0; b < lengths.numel(); ++b) {
    TORCH_CHECK_VALUE(length[b] >= 0 && length[b] <= limit, "attention: ", name, "[", b, "] is ",
                      length[b], "; it must be at least 0 and at most ", limit);
  }
  return lengths;
}

Positions read_positions(const Call& call) {
  Positions p;
  const AttentionOptions& o = call.options;
  if (call.packed()) {
    p.query_starts = read_starts("query_starts", call.packing->query_starts, call.query.size(0));
    p.key_starts = read_starts("key_starts", call.packing->key_starts, call.key.size(0));
    p.sequences.count = p.query_starts.numel() - 1;
    p.sequences.query_rows = longest(p.query_starts);
    p.sequences.key_rows = longest(p.key_starts);
    check_covers("mask", call.mask(), p.sequences);
    check_covers("bias", o.bias, p.sequences);
  } else {
    p.sequences.count = call.query.size(0);
    p.sequences.query_rows = call.query.size(2);
    p.sequences.key_rows = call.key.size(2);
    if (o.query_lengths) {
      p.query_lengths = read_lengths("query_lengths", *o.query_lengths, call.query.size(2));
    }
    if (o.key_lengths) {
      p.key_lengths = read_lengths("key_lengths", *o.key_lengths, call.key.size(2));
    }
  }
  p.sequences.query_starts = numbers(p.query_starts);
  p.sequences.key_starts = numbers(p.key_starts);
  p.sequences.query_lengths = numbers(p.query_lengths);
  p.sequences.key_lengths = numbers(p.key_lengths);
  return p;
}

}  // namespace headwise::ops
