// Korean particles, chosen by how the word before them ends when it is read aloud.
#pragma once

#include <string>
#include <string_view>

namespace headwise::data::grammar {

enum class Particle {
  kTopic,      // 은/는
  kSubject,    // 이/가
  kObject,     // 을/를
  kAnd,        // 와/과
  kDirection,  // (으)로
  kRecipient,  // 에게
  kPlace,      // 에서
  kGoal,       // 에
  kOwner,      // 의
};

enum class Ending { kVowel, kConsonant, kRieul };

/// How `word` ends when read in Korean: a Hangul syllable by its final consonant, digits by the
/// Sino-Korean reading of the whole number (17 십칠, 20 이십), Latin letters by the table of
/// docs/embedded_corpus.md.
/// @throws std::invalid_argument if it ends in anything else.
Ending ending_of(std::string_view word);

/// `word` with the right shape of the particle attached.
std::string with_particle(std::string_view word, Particle particle);

}  // namespace headwise::data::grammar
