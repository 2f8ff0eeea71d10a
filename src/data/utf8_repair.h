// Text from outside made valid UTF-8 where refusing it would stop a stream.
#pragma once

#include <string>
#include <string_view>

namespace headwise::data {

/// `text` with every invalid byte sequence replaced by U+FFFD; equal to `text` when it is valid.
std::string repair_utf8(std::string_view text);

}  // namespace headwise::data
