// Cuts one block of scratch memory into arrays. Without a block it only counts, so that the code
// which lays out the scratch also tells its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headwise::kernels::cpu {

class Arena {
 public:
  explicit Arena(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <typename U>
  U* take(int64_t count) {
    U* array = memory_ == nullptr ? nullptr : reinterpret_cast<U*>(memory_ + bytes_);
    constexpr size_t kAlignment = 64;  // a cache line, and every vector width
    bytes_ += (static_cast<size_t>(count) * sizeof(U) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }

  size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  size_t bytes_ = 0;
};

}  // namespace headwise::kernels::cpu
