// The little that the data room asks about characters (ICU answers).
#pragma once

#include <cstdint>
#include <string_view>

namespace headwise::data {

/// The code point at byte `offset`, which is moved past it; negative for bytes that are no valid
/// UTF-8 (overlong forms, surrogates and code points above U+10FFFF among them).
int32_t next_character(std::string_view text, int64_t& offset);

/// Code points; a run of invalid bytes counts once for each time the decoder starts anew.
int64_t count_characters(std::string_view text);

/// Nothing a reader would see: only white space, control and zero-width characters, replacement
/// characters (U+FFFD) and SentencePiece's space mark (U+2581). Such a line normalises to nothing.
bool is_blank(std::string_view text);

}  // namespace headwise::data
