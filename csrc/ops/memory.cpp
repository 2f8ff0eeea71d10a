#include "csrc/ops/memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <system_error>
#include <vector>

namespace headwise::ops {

namespace {

struct Block {
  void* data;
  size_t bytes;
};

/// Sizes are rounded up to an eighth of the power of two below, so that blocks fit again.
size_t size_class(size_t bytes) {
  const size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

size_t limit_from_environment() {
  constexpr size_t kMebibyte = size_t{1} << 20, kDefault = 64;
  const char* text = std::getenv("HEADWISE_KEPT_MEMORY");
  if (text == nullptr) return kDefault * kMebibyte;
  const std::string_view given = text;
  size_t number = 0;
  const auto [end, error] = std::from_chars(given.begin(), given.end(), number);
  if (error == std::errc() && end == given.end() && number < (size_t{1} << 40)) {
    return number * kMebibyte;
  }
  TORCH_WARN("headwise: HEADWISE_KEPT_MEMORY is \"", given, "\"; a whole number of MiB is needed, ",
             kDefault, " are used");
  return kDefault * kMebibyte;
}

class KeptBlocks {
 public:
  /// A kept block of this size, or null data.
  Block take(size_t bytes) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {nullptr, 0};
    // The newest is the likeliest to be in the processor's caches.
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(),
                                    [&](const Block& block) { return block.bytes == bytes; });
    if (found == kept_.rend()) return {nullptr, 0};
    const Block block = *found;
    kept_.erase(std::next(found).base());
    bytes_ -= block.bytes;
    return block;
  }

  /// Keeps the block; the oldest go where there is no room.
  void give(const Block& block) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || block.bytes > limit_) return c10::free_cpu(block.data);
    auto end = kept_.begin();
    for (; bytes_ + block.bytes > limit_; ++end) {
      bytes_ -= end->bytes;
      c10::free_cpu(end->data);
    }
    kept_.erase(kept_.begin(), end);
    kept_.push_back(block);
    bytes_ += block.bytes;
  }

  size_t bytes() {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }

 private:
  // Only ever tried: a process forked while another thread held it must not wait for ever.
  std::mutex mutex_;
  std::vector<Block> kept_;  // oldest first
  size_t bytes_ = 0;
  const size_t limit_ = limit_from_environment();
};

KeptBlocks& kept_blocks() {
  static auto* const blocks = new KeptBlocks;  // tensors may outlive static objects
  return *blocks;
}

class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kLeast = size_t{64} << 10;  // below, malloc keeps memory itself
    if (bytes < kLeast) return c10::GetCPUAllocator()->allocate(bytes);
    const size_t size = size_class(bytes);
    Block block = kept_blocks().take(size);
    if (block.data == nullptr) block = {c10::alloc_cpu(size), size};
    c10::profiledCPUMemoryReporter().New(block.data, bytes);
    return {block.data, new Block(block), &give_back, at::Device(at::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void give_back(void* context) {
    const auto* const block = static_cast<Block*>(context);
    c10::profiledCPUMemoryReporter().Delete(block->data);
    kept_blocks().give(*block);
    delete block;
  }
};

}  // namespace

at::Tensor empty_kept(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  static auto* const allocator = new Allocator;
  return at::detail::empty_strided_generic(sizes, strides, allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::CPU), type);
}

size_t kept_bytes() { return kept_blocks().bytes(); }

}  // namespace headwise::ops
