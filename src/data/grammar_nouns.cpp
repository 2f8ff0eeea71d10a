#include <array>
#include <stdexcept>

#include "src/config/error.h"
#include "src/data/grammar_lexicon.h"

namespace headwise::data::grammar {
namespace {

constexpr uint32_t kItem = kGoods | kSmall;

constexpr auto kNouns = std::to_array<Noun>({
    {"student", "students", "학생", "명", kPerson},
    {"doctor", "doctors", "의사", "명", kPerson},
    {"friend", "friends", "친구", "명", kPerson},
    {"farmer", "farmers", "농부", "명", kPerson},
    {"child", "children", "아이", "명", kPerson},
    {"nurse", "nurses", "간호사", "명", kPerson},
    {"writer", "writers", "작가", "명", kPerson},
    {"singer", "singers", "가수", "명", kPerson},
    {"cook", "cooks", "요리사", "명", kPerson},
    {"artist", "artists", "화가", "명", kPerson},
    {"soldier", "soldiers", "군인", "명", kPerson},
    {"neighbor", "neighbors", "이웃", "명", kPerson},
    {"merchant", "merchants", "상인", "명", kPerson},

    {"cat", "cats", "고양이", "마리", kAnimal},
    {"dog", "dogs", "개", "마리", kAnimal},
    {"bird", "birds", "새", "마리", kAnimal},
    {"horse", "horses", "말", "마리", kAnimal},
    {"cow", "cows", "소", "마리", kAnimal},
    {"rabbit", "rabbits", "토끼", "마리", kAnimal},
    {"bear", "bears", "곰", "마리", kAnimal},
    {"fox", "foxes", "여우", "마리", kAnimal},
    {"duck", "ducks", "오리", "마리", kAnimal},

    {"apple", "apples", "사과", "개", kFood | kFruit},
    {"pear", "pears", "배", "개", kFood | kFruit},
    {"peach", "peaches", "복숭아", "개", kFood | kFruit},
    {"potato", "potatoes", "감자", "개", kFood | kFruit | kBaked},
    {"egg", "eggs", "달걀", "개", kFood},
    {"cookie", "cookies", "과자", "개", kFood | kBaked},
    {"bread", "", "빵", "", kFood | kBaked},
    {"meat", "", "고기", "", kFood | kBaked},
    {"rice", "", "밥", "", kFood},
    {"water", "", "물", "", kDrink},
    {"milk", "", "우유", "", kDrink},
    {"coffee", "", "커피", "", kDrink},

    {"book", "books", "책", "권", kText | kWritten},
    {"letter", "letters", "편지", "통", kText | kWritten},
    {"newspaper", "newspapers", "신문", "부", kText},
    {"story", "stories", "이야기", "편", kText | kWritten | kHeard},
    {"song", "songs", "노래", "곡", kWritten | kHeard},

    {"cup", "cups", "컵", "개", kItem},
    {"hat", "hats", "모자", "개", kItem},
    {"pencil", "pencils", "연필", "자루", kItem},
    {"key", "keys", "열쇠", "개", kItem},
    {"ball", "balls", "공", "개", kItem},
    {"flower", "flowers", "꽃", "송이", kItem},
    {"ticket", "tickets", "표", "장", kItem},
    {"map", "maps", "지도", "장", kItem},
    {"umbrella", "umbrellas", "우산", "개", kItem},
    {"bag", "bags", "가방", "개", kItem | kOpened | kContainer},
    {"box", "boxes", "상자", "개", kGoods | kFurniture | kOpened | kContainer},
    {"chair", "chairs", "의자", "개", kFurniture | kSurface},
    {"table", "tables", "탁자", "개", kFurniture | kSurface},
    {"clock", "clocks", "시계", "개", kFurniture},
    {"door", "doors", "문", "개", kOpened},
    {"window", "windows", "창문", "개", kOpened},

    {"car", "cars", "자동차", "대", kVehicle | kRide},
    {"bicycle", "bicycles", "자전거", "대", kVehicle | kRide},
    {"bus", "buses", "버스", "", kVehicle | kTransit | kRide},
    {"train", "trains", "기차", "", kTransit | kRide},

    {"school", "schools", "학교", "", kPlace | kBuilding, "at"},
    {"library", "libraries", "도서관", "", kPlace | kBuilding, "in"},
    {"hospital", "hospitals", "병원", "", kPlace | kBuilding, "in"},
    {"station", "stations", "역", "", kPlace | kBuilding, "at"},
    {"house", "houses", "집", "", kPlace | kBuilding, "in"},
    {"village", "villages", "마을", "", kPlace | kSettlement, "in"},
    {"city", "cities", "도시", "", kPlace | kSettlement, "in"},
    {"park", "parks", "공원", "", kPlace, "in"},
    {"market", "markets", "시장", "", kPlace, "at"},
    {"kitchen", "kitchens", "부엌", "", kPlace, "in"},
    {"garden", "gardens", "정원", "", kPlace, "in"},
    {"beach", "beaches", "바닷가", "", kPlace, "at"},
    {"forest", "forests", "숲", "", kPlace, "in"},
    {"office", "offices", "사무실", "", kPlace, "in"},
});

constexpr std::array<const char*, kLargestWordNumber> kEnglishNumbers = {
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
constexpr std::array<const char*, kLargestWordNumber> kKoreanNumbers = {
    "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉", "열"};

size_t word_index(int64_t number) {
  if (number < 1 || number > kLargestWordNumber) {
    throw std::out_of_range(
        text_of("numbers from 1 to ", kLargestWordNumber, " have a word, got ", number));
  }
  return static_cast<size_t>(number - 1);
}

}  // namespace

std::span<const Noun> nouns() { return kNouns; }

const char* english_number(int64_t number) { return kEnglishNumbers[word_index(number)]; }

const char* korean_number(int64_t number) { return kKoreanNumbers[word_index(number)]; }

}  // namespace headwise::data::grammar
