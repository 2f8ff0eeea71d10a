#include <array>

#include "src/data/grammar_lexicon.h"

namespace headwise::data::grammar {
namespace {

using enum StemKind;

constexpr uint32_t kAlive = kPerson | kAnimal;
constexpr uint32_t kThing = kGoods | kFurniture | kVehicle;
constexpr uint32_t kWare = kFood | kDrink | kThing | kText;

constexpr auto kVerbs = std::to_array<Verb>({
    {"see", "sees", "saw", "보", kRegular, Frame::kObject, kAlive, kAlive | kThing | kTransit},
    {"eat", "eats", "ate", "먹", kRegular, Frame::kObject, kAlive, kFood},
    {"drink", "drinks", "drank", "마시", kRegular, Frame::kObject, kAlive, kDrink},
    {"buy", "buys", "bought", "사", kRegular, Frame::kObject, kPerson, kWare},
    {"sell", "sells", "sold", "팔", kRegular, Frame::kObject, kPerson, kWare},
    {"read", "reads", "read", "읽", kRegular, Frame::kObject, kPerson, kText | kPage},
    {"write", "writes", "wrote", "쓰", kRegular, Frame::kObject, kPerson, kWritten | kNumeral},
    {"like", "likes", "liked", "좋아하", kRegular, Frame::kState, kAlive, kAlive | kFood | kHeard},
    {"find", "finds", "found", "발견하", kRegular, Frame::kObject, kAlive, kAlive | kGoods},
    {"look for", "looks for", "looked for", "찾", kRegular, Frame::kObject, kAlive,
     kAlive | kGoods},
    {"wait for", "waits for", "waited for", "기다리", kRegular, Frame::kObject, kPerson,
     kPerson | kTransit | kBus},
    {"make", "makes", "made", "만들", kRegular, Frame::kObject, kPerson, kThing | kBaked},
    {"bake", "bakes", "baked", "굽", kB, Frame::kObject, kPerson, kBaked},
    {"pick up", "picks up", "picked up", "줍", kB, Frame::kObject, kPerson, kSmall},
    {"throw", "throws", "threw", "던지", kRegular, Frame::kObject, kPerson, kSmall},
    {"choose", "chooses", "chose", "고르", kReu, Frame::kObject, kPerson,
     kFruit | kThing | kText | kNumeral},
    {"draw", "draws", "drew", "그리", kRegular, Frame::kObject, kPerson, kAlive | kThing},
    {"clean", "cleans", "cleaned", "닦", kRegular, Frame::kObject, kPerson,
     kFurniture | kVehicle | kOpened},
    {"open", "opens", "opened", "열", kRegular, Frame::kObject, kPerson, kOpened},
    {"close", "closes", "closed", "닫", kRegular, Frame::kObject, kPerson, kOpened},
    {"call", "calls", "called", "부르", kReu, Frame::kObject, kPerson, kAlive},
    {"help", "helps", "helped", "돕", kBToO, Frame::kObject, kPerson, kAlive},
    {"meet", "meets", "met", "만나", kRegular, Frame::kObject, kPerson, kPerson},
    {"follow", "follows", "followed", "따라가", kRegular, Frame::kObject, kAlive, kAlive},
    {"catch", "catches", "caught", "잡", kRegular, Frame::kObject, kAlive, kAnimal},
    {"hide", "hides", "hid", "숨기", kRegular, Frame::kObject, kPerson, kGoods | kFood},
    {"borrow", "borrows", "borrowed", "빌리", kRegular, Frame::kObject, kPerson,
     kText | kGoods | kVehicle},
    {"fix", "fixes", "fixed", "고치", kRegular, Frame::kObject, kPerson,
     kFurniture | kVehicle | kOpened},
    {"hear", "hears", "heard", "듣", kD, Frame::kObject, kAlive, kHeard},
    {"remember", "remembers", "remembered", "기억하", kRegular, Frame::kState, kPerson,
     kPerson | kHeard | kNumeral},
    {"forget", "forgets", "forgot", "잊", kRegular, Frame::kState, kPerson,
     kPerson | kHeard | kNumeral},
    {"build", "builds", "built", "짓", kS, Frame::kObject, kPerson, kBuilding},
    {"take", "takes", "took", "타", kRegular, Frame::kObject, kPerson, kTransit | kBus},

    {"give", "gives", "gave", "주", kRegular, Frame::kGive, kPerson,
     kFood | kDrink | kGoods | kText},
    {"send", "sends", "sent", "보내", kRegular, Frame::kGive, kPerson, kFruit | kGoods | kText},
    {"show", "shows", "showed", "보여주", kRegular, Frame::kGive, kPerson,
     kAnimal | kThing | kText},
    {"lend", "lends", "lent", "빌려주", kRegular, Frame::kGive, kPerson, kText | kGoods | kVehicle},

    {"change", "changes", "changed", "바꾸", kRegular, Frame::kChange, kPerson, kNumeral},

    {"sleep", "sleeps", "slept", "자", kRegular, Frame::kActivity, kAlive, 0},
    {"rest", "rests", "rested", "쉬", kRegular, Frame::kActivity, kAlive, 0},
    {"walk", "walks", "walked", "걷", kD, Frame::kActivity, kAlive, 0},
    {"play", "plays", "played", "놀", kRegular, Frame::kActivity, kAlive, 0},
    {"cry", "cries", "cried", "울", kRegular, Frame::kActivity, kAlive, 0},
    {"laugh", "laughs", "laughed", "웃", kRegular, Frame::kActivity, kPerson, 0},
    {"work", "works", "worked", "일하", kRegular, Frame::kActivity, kPerson, 0},
    {"dance", "dances", "danced", "춤추", kRegular, Frame::kActivity, kPerson, 0},
    {"study", "studies", "studied", "공부하", kRegular, Frame::kActivity, kPerson, 0},

    {"go", "goes", "went", "가", kRegular, Frame::kGoal, kAlive, kPlace, "to"},
    {"come", "comes", "came", "오", kRegular, Frame::kGoal, kAlive, kPlace, "to"},
    {"arrive", "arrives", "arrived", "도착하", kRegular, Frame::kGoal, kAlive, kPlace, "at"},
    {"return", "returns", "returned", "돌아가", kRegular, Frame::kDirection, kAlive, kPlace, "to"},
    {"move", "moves", "moved", "이사하", kRegular, Frame::kDirection, kPerson, kSettlement, "to"},
});

constexpr uint32_t kSized = kAnimal | kFruit | kThing | kOpened | kPlace;
constexpr uint32_t kColored = kThing | kOpened;
constexpr uint32_t kPriced = kFood | kDrink | kThing | kText;

constexpr auto kAdjectives = std::to_array<Adjective>({
    {"big", "크", kRegular, kSized},
    {"small", "작", kRegular, kSized},
    {"new", "", kRegular, kThing | kText | kBuilding | kHeard, "새"},
    {"old", "", kRegular, kThing | kText | kBuilding | kHeard | kOpened, "오래된"},
    {"red", "빨갛", kH, kColored | kFruit},
    {"blue", "파랗", kH, kColored},
    {"yellow", "노랗", kH, kColored},
    {"white", "하얗", kH, kColored | kAnimal},
    {"black", "까맣", kH, kColored | kAnimal},
    {"heavy", "무겁", kB, kGoods | kFurniture},
    {"light", "가볍", kB, kGoods | kFurniture},
    {"pretty", "예쁘", kRegular, kGoods | kAnimal},
    {"beautiful", "아름답", kB, kPlace | kHeard},
    {"expensive", "비싸", kRegular, kPriced},
    {"cheap", "싸", kRegular, kPriced},
    {"cold", "차갑", kB, kDrink},
    {"hot", "뜨겁", kB, kDrink},
    {"fresh", "신선하", kRegular, kFood | kDrink},
    {"delicious", "맛있", kRegular, kFood | kDrink},
    {"sweet", "달", kRegular, kFruit},
    {"long", "길", kRegular, kWritten | kHeard},
    {"kind", "친절하", kRegular, kPerson},
    {"clever", "똑똑하", kRegular, kPerson | kAnimal},
    {"young", "젊", kRegular, kPerson},
    {"tall", "키가 크", kRegular, kPerson},
    {"famous", "유명하", kRegular, kPerson | kPlace},
    {"hungry", "배고프", kRegular, kPerson | kAnimal},
    {"tired", "피곤하", kRegular, kPerson | kAnimal},
    {"quiet", "조용하", kRegular, kPerson | kPlace},
});

constexpr auto kTimeWords = std::to_array<TimeWord>({
    {"yesterday", "어제", Tense::kPast},
    {"last night", "어젯밤에", Tense::kPast},
    {"last week", "지난주에", Tense::kPast},
    {"this morning", "오늘 아침에", Tense::kPast},
    {"every day", "매일", Tense::kPresent},
    {"every morning", "매일 아침", Tense::kPresent},
    {"often", "자주", Tense::kPresent, true},
    {"always", "항상", Tense::kPresent, true},
    {"sometimes", "가끔", Tense::kPresent, true},
    {"tomorrow", "내일", Tense::kFuture},
    {"next week", "다음 주에", Tense::kFuture},
    {"next month", "다음 달에", Tense::kFuture},
    {"tonight", "오늘 밤에", Tense::kFuture},
});

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

std::span<const Adjective> adjectives() { return kAdjectives; }

std::span<const TimeWord> time_words() { return kTimeWords; }

}  // namespace headwise::data::grammar
