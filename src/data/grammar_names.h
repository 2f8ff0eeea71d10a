// Names and numbers to copy: endless, made of familiar pieces, a part of them kept out of training.
#pragma once

#include <cstdint>
#include <string>

#include "src/data/grammar_random.h"

namespace headwise::data::grammar {

/// Which names and numbers may be drawn: those of training, or those no training sentence ever
/// holds.
enum class Pool { kTraining, kHeldOut };

/// Whether a name or the digits of a number belong to the held-out pool (one in four does).
bool held_out(const std::string& text);

/// Whether an English sentence holds a name or a number of the held-out pool.
bool holds_held_out(const std::string& sentence);

/// An invented name of two or three syllables, such as "Toma" or "Belarin".
std::string draw_name(Random& random, Pool pool);

/// A number from [first, last].
int64_t draw_number(Random& random, Pool pool, int64_t first, int64_t last);

/// A number of two to four digits, larger than those written as words.
int64_t draw_long_number(Random& random, Pool pool);

}  // namespace headwise::data::grammar
