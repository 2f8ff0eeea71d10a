// Whole sentences in both languages against pairs written by hand.
#include "src/data/grammar_sentence.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/cpp/data/grammar_builders.h"

namespace headwise::data::grammar {
namespace {

void expect(const Sentence& sentence, const char* english, const char* korean) {
  EXPECT_EQ(to_english(sentence), english);
  EXPECT_EQ(to_korean(sentence), korean);
}

void expect(const Clause& clause, const char* english, const char* korean) {
  expect(Sentence{SentenceKind::kStatement, {clause}, {}}, english, korean);
}

void expect(SentenceKind kind, const Clause& clause, const char* english, const char* korean) {
  expect(Sentence{kind, {clause}, {}}, english, korean);
}

constexpr Tense kPast = Tense::kPast, kPresent = Tense::kPresent, kFuture = Tense::kFuture;

TEST(GrammarSentence, TensesAndNegation) {
  expect(does(kPast, {name("Mina")}, "see", {the("cat")}), "Mina saw the cat.",
         "Mina는 고양이를 봤습니다.");
  expect(does(kPresent, {name("Ratim")}, "read", {a("book")}), "Ratim reads a book.",
         "Ratim은 책을 읽습니다.");
  expect(does(kFuture, {the("doctor")}, "help", {name("Rumil")}), "The doctor will help Rumil.",
         "의사는 Rumil을 도울 것입니다.");
  expect(isnt(does(kPast, {kI}, "hear", {the("song")})), "I did not hear the song.",
         "저는 노래를 듣지 않았습니다.");
  expect(isnt(does(kPresent, {the("student")}, "make", {with(Determiner::kNone, the("bread"))})),
         "The student does not make bread.", "학생은 빵을 만들지 않습니다.");
  expect(isnt(does(kFuture, {kWe}, "sell", {with(Determiner::kThis, the("car", "red"))})),
         "We will not sell this red car.", "우리는 이 빨간 자동차를 팔지 않을 것입니다.");
}

TEST(GrammarSentence, NumbersAndCounters) {
  expect(does(kPast, {name("Toma")}, "buy", {count(3, the("apple"))}), "Toma bought three apples.",
         "Toma는 사과 세 개를 샀습니다.");
  expect(does(kPast, {name("Toma")}, "buy", {count(17, the("apple", "red"))}),
         "Toma bought 17 red apples.", "Toma는 빨간 사과 17개를 샀습니다.");
  expect(does(kPresent, {count(1, the("bird"))}, "sleep"), "One bird sleeps.",
         "새 한 마리는 잡니다.");
  expect(does(kPast, {count(20, the("child", "hungry"))}, "eat", {count(5, the("egg"))}),
         "20 hungry children ate five eggs.", "배고픈 아이 20명은 달걀 다섯 개를 먹었습니다.");
  expect(does(kPast, {name("Sana")}, "write", {of_kind(NounPhrase::Kind::kNumeral, 38)}),
         "Sana wrote the number 38.", "Sana는 숫자 38을 썼습니다.");
  expect(does(kPast, {kI}, "read", {of_kind(NounPhrase::Kind::kPage, 214)}), "I read page 214.",
         "저는 214쪽을 읽었습니다.");
  expect(does(kFuture, {name("Velin")}, "take", {of_kind(NounPhrase::Kind::kBus, 52)}),
         "Velin will take bus 52.", "Velin은 52번 버스를 탈 것입니다.");
  expect(but(does(kPast, {name("Velin")}, "change", {of_kind(NounPhrase::Kind::kNumeral, 1620)}),
             [](Clause& c) { c.number = 30; }),
         "Velin changed the number 1620 to 30.", "Velin은 숫자 1620을 30으로 바꿨습니다.");
}

TEST(GrammarSentence, PlacesGoalsAndTimes) {
  expect(but(does(kPast, {name("Mina")}, "walk"),
             [](Clause& c) {
               c.place = at("park");
               c.time = when("yesterday");
             }),
         "Mina walked in the park yesterday.", "Mina는 어제 공원에서 걸었습니다.");
  expect(but(does(kPast, {name("Mina"), name("Kesal")}, "return"),
             [](Clause& c) { c.goal = at("village"); }),
         "Mina and Kesal returned to the village.", "Mina와 Kesal은 마을로 돌아갔습니다.");
  expect(but(does(kPresent, {name("Mina")}, "go"),
             [](Clause& c) {
               c.goal = at("school");
               c.transport = noun("train");
               c.companion = "Velin";
               c.time = when("every day");
             }),
         "Mina goes to the school with Velin by train every day.",
         "Mina는 매일 Velin과 함께 기차로 학교에 갑니다.");
  expect(but(does(kPast, {the("merchant")}, "move"),
             [](Clause& c) {
               c.goal.name = "Rumil";
               c.year = 1987;
               c.time_first = true;
             }),
         "In 1987, the merchant moved to Rumil.", "1987년에 상인은 Rumil로 이사했습니다.");
  expect(but(does(kPresent, {the("nurse")}, "drink", {with(Determiner::kNone, the("milk"))}),
             [](Clause& c) { c.time = when("often"); }),
         "The nurse often drinks milk.", "간호사는 자주 우유를 마십니다.");
  expect(but(does(kPast, {kWe}, "bake", {with(Determiner::kNone, the("meat"))}),
             [](Clause& c) {
               c.place = at("kitchen");
               c.place_first = true;
             }),
         "In the kitchen, we baked meat.", "부엌에서 우리는 고기를 구웠습니다.");
  expect(but(does(kFuture, {the("friend")}, "give", {a("book", "old")}),
             [](Clause& c) { c.recipient = {name("Ratim")}; }),
         "The friend will give an old book to Ratim.", "친구는 Ratim에게 오래된 책을 줄 것입니다.");
}

TEST(GrammarSentence, BeingAndExisting) {
  expect(is(kPresent, owned("Mina", the("bag")), "heavy"), "Mina's bag is heavy.",
         "Mina의 가방은 무겁습니다.");
  expect(is(kPast, kI, "tired"), "I was tired.", "저는 피곤했습니다.");
  expect(isnt(is(kPast, count(2, the("clock")), "white")), "Two clocks were not white.",
         "시계 두 개는 하얗지 않았습니다.");
  expect(is_a(kPast, name("Sana"), "student"), "Sana was a student.", "Sana는 학생이었습니다.");
  expect(isnt(is_a(kPresent, name("Sana"), "artist")), "Sana is not an artist.",
         "Sana는 화가가 아닙니다.");
  Clause age = is_a(kPresent, name("Ratim"), "artist");
  age.kind = ClauseKind::kAge;
  age.number = 38;
  expect(age, "Ratim is 38 years old.", "Ratim은 38살입니다.");
  expect(there_is(kPresent, a("cup", "small"), at("table", Location::Side::kOn)),
         "There is a small cup on the table.", "탁자 위에 작은 컵이 있습니다.");
  expect(there_is(kPast, count(12, the("ticket")), at("box", Location::Side::kInside)),
         "There were 12 tickets in the box.", "상자 안에 표 12장이 있었습니다.");
  expect(isnt(there_is(kPresent, with(Determiner::kNone, the("rabbit")), at("forest"))),
         "There is no rabbit in the forest.", "숲에 토끼가 없습니다.");
}

TEST(GrammarSentence, RelativeClauses) {
  expect(does(kPast, {that(the("cat"), does(kPast, {name("Mina")}, "see"))}, "eat",
              {with(Determiner::kNone, the("bread"))}),
         "The cat that Mina saw ate bread.", "Mina가 본 고양이는 빵을 먹었습니다.");
  expect(does(kFuture, {kI}, "buy",
              {that(a("chair", "big"), does(kPresent, {name("Ratim")}, "make"))}),
         "I will buy a big chair that Ratim makes.", "저는 Ratim이 만드는 큰 의자를 살 것입니다.");
  expect(does(kPast, {that(the("student"), does(kFuture, {}, "build", {a("house")}))}, "call",
              {the("soldier")}),
         "The student who will build a house called the soldier.",
         "집을 지을 학생은 군인을 불렀습니다.");
  expect(does(kPast, {name("Toma")}, "find",
              {that(count(4, the("key")), isnt(does(kPast, {kI}, "hide")))}),
         "Toma found four keys that I did not hide.",
         "Toma는 제가 숨기지 않은 열쇠 네 개를 발견했습니다.");
}

TEST(GrammarSentence, Questions) {
  expect(SentenceKind::kYesNo, does(kPast, {name("Mina")}, "choose", {the("map")}),
         "Did Mina choose the map?", "Mina는 지도를 골랐습니까?");
  expect(SentenceKind::kYesNo, is(kPresent, the("water"), "cold"), "Is the water cold?",
         "물은 차갑습니까?");
  expect(SentenceKind::kWho, does(kPast, {}, "open", {the("door")}), "Who opened the door?",
         "누가 문을 열었습니까?");
  expect(SentenceKind::kWhom, does(kFuture, {name("Mina")}, "meet"), "Who will Mina meet?",
         "Mina는 누구를 만날 것입니까?");
  expect(SentenceKind::kWhat, does(kPresent, {the("farmer")}, "sell"), "What does the farmer sell?",
         "농부는 무엇을 팝니까?");
  expect(SentenceKind::kWhere, does(kPast, {name("Mina")}, "go"), "Where did Mina go?",
         "Mina는 어디에 갔습니까?");
  expect(SentenceKind::kWhere, does(kPast, {name("Mina")}, "move"), "Where did Mina move?",
         "Mina는 어디로 이사했습니까?");
  expect(SentenceKind::kWhere, does(kPresent, {kWe}, "work"), "Where do we work?",
         "우리는 어디에서 일합니까?");
  Clause can = does(kPresent, {name("Mina")}, "fix", {the("bicycle")});
  can.ability = true;
  expect(SentenceKind::kYesNo, can, "Can Mina fix the bicycle?",
         "Mina는 자전거를 고칠 수 있습니까?");
  expect(isnt(can), "Mina cannot fix the bicycle.", "Mina는 자전거를 고칠 수 없습니다.");
}

TEST(GrammarSentence, SeveralClauses) {
  const Clause reads = does(kPast, {name("Mina")}, "read", {the("letter")});
  const Clause tired = is(kPast, the("dog"), "tired");
  const Clause sleeps = does(kFuture, {the("dog")}, "sleep");
  const auto joined = [](std::vector<Clause> clauses, std::vector<Link> links) {
    return Sentence{SentenceKind::kStatement, std::move(clauses), std::move(links)};
  };
  expect(joined({reads, sleeps}, {Link::kAnd}), "Mina read the letter, and the dog will sleep.",
         "Mina는 편지를 읽었고 개는 잘 것입니다.");
  expect(joined({reads, tired}, {Link::kBut}), "Mina read the letter, but the dog was tired.",
         "Mina는 편지를 읽었지만 개는 피곤했습니다.");
  expect(joined({sleeps, tired}, {Link::kBecause}), "The dog will sleep because the dog was tired.",
         "개가 피곤했기 때문에 개는 잘 것입니다.");
  expect(joined({reads, sleeps, tired}, {Link::kBut, Link::kBecause}),
         "Mina read the letter, but the dog will sleep because the dog was tired.",
         "Mina는 편지를 읽었지만 개가 피곤했기 때문에 개는 잘 것입니다.");
  expect(joined({sleeps, tired, reads}, {Link::kBecause, Link::kAnd}),
         "The dog will sleep because the dog was tired, and Mina read the letter.",
         "개가 피곤했기 때문에 개는 잘 것이고 Mina는 편지를 읽었습니다.");
}

}  // namespace
}  // namespace headwise::data::grammar
