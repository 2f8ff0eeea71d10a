#include "csrc/nn/key_value_cache.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace headwise::nn {
namespace {

int64_t storage_bytes(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
}

}  // namespace

KeyValueCache::KeyValueCache(int64_t rows, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                             const at::TensorOptions& options) {
  TORCH_CHECK_VALUE(rows > 0 && kv_heads > 0 && capacity > 0 && head_dim > 0,
                    "a key/value cache needs sizes of at least 1; got rows ", rows, ", kv_heads ",
                    kv_heads, ", capacity ", capacity, ", head_dim ", head_dim);
  // Zeros: slots past the length are never read, but nobody should find another tensor's memory.
  keys_ = at::zeros({rows, kv_heads, capacity, head_dim}, options);
  values_ = at::zeros_like(keys_);
  beam_index_ = at::arange(rows, options.dtype(at::kInt)).unsqueeze(1).repeat({1, capacity});
}

int64_t KeyValueCache::capacity() const { return keys_.defined() ? keys_.size(2) : 0; }

int64_t KeyValueCache::live_rows() const { return beam_index_.defined() ? beam_index_.size(0) : 0; }

int64_t KeyValueCache::bytes() const {
  return storage_bytes(keys_) + storage_bytes(values_) + storage_bytes(beam_index_);
}

void KeyValueCache::reorder(const at::Tensor& parents) {
  TORCH_CHECK_VALUE(keys_.defined(), "reorder of an empty cache (default-constructed)");
  TORCH_CHECK_VALUE(parents.dim() == 1 && parents.scalar_type() == at::kLong,
                    "parents must be int64 of shape (R); got ", parents.scalar_type(), " of shape ",
                    parents.sizes());
  TORCH_CHECK_VALUE(parents.size(0) <= keys_.size(0), "parents names ", parents.size(0),
                    " rows; the cache was made for at most ", keys_.size(0));
  beam_index_ = beam_index_.index_select(0, parents);
}

void KeyValueCache::append(const at::Tensor& key, const at::Tensor& value) {
  TORCH_CHECK_VALUE(keys_.defined(), "append to an empty cache (default-constructed)");
  const int64_t rows = live_rows();
  TORCH_CHECK_VALUE(key.dim() == 4 && key.size(0) == rows && key.size(1) == keys_.size(1) &&
                        key.size(3) == keys_.size(3) && key.sizes() == value.sizes(),
                    "the cache takes keys and values of shape (", rows, ", ", keys_.size(1),
                    ", T, ", keys_.size(3), "); got key ", key.sizes(), " and value ",
                    value.sizes());
  TORCH_CHECK_VALUE(key.scalar_type() == keys_.scalar_type() && key.dtype() == value.dtype(),
                    "the cache holds ", keys_.scalar_type(), "; got key ", key.scalar_type(),
                    " and value ", value.scalar_type());
  const int64_t tokens = key.size(2);
  TORCH_CHECK_VALUE(tokens <= capacity() - length_, "the cache holds ", length_, " of at most ",
                    capacity(), " positions; ", tokens, " more do not fit");
  // A live row writes to the cache row of its own number: nobody else has this position there.
  keys_.narrow(0, 0, rows).narrow(2, length_, tokens).copy_(key.detach());
  values_.narrow(0, 0, rows).narrow(2, length_, tokens).copy_(value.detach());
  const at::Tensor own = at::arange(rows, beam_index_.options()).unsqueeze(1);
  beam_index_.narrow(1, length_, tokens).copy_(own);
  length_ += tokens;
}

int64_t CrossCache::bytes() const {
  return storage_bytes(keys) + storage_bytes(values) + storage_bytes(lengths);
}

}  // namespace headwise::nn
