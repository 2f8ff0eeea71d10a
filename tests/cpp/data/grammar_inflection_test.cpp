// Inflected forms against a table written by hand from a Korean grammar, one row per kind of stem.
#include "src/data/grammar_inflection.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace headwise::data::grammar {
namespace {

struct Row {
  const char* stem;
  StemKind kind;
  const char *present, *past, *future;                 // statements
  const char *present_noun, *past_noun, *future_noun;  // before a noun
};

const std::vector<Row> kVerbs = {
    // consonant
    {"먹", StemKind::kRegular, "먹습니다", "먹었습니다", "먹을 것입니다", "먹는", "먹은", "먹을"},
    {"잡", StemKind::kRegular, "잡습니다", "잡았습니다", "잡을 것입니다", "잡는", "잡은", "잡을"},
    {"닫", StemKind::kRegular, "닫습니다", "닫았습니다", "닫을 것입니다", "닫는", "닫은", "닫을"},
    {"웃", StemKind::kRegular, "웃습니다", "웃었습니다", "웃을 것입니다", "웃는", "웃은", "웃을"},
    // vowels that melt with 아/어
    {"사", StemKind::kRegular, "삽니다", "샀습니다", "살 것입니다", "사는", "산", "살"},
    {"보", StemKind::kRegular, "봅니다", "봤습니다", "볼 것입니다", "보는", "본", "볼"},
    {"오", StemKind::kRegular, "옵니다", "왔습니다", "올 것입니다", "오는", "온", "올"},
    {"주", StemKind::kRegular, "줍니다", "줬습니다", "줄 것입니다", "주는", "준", "줄"},
    {"마시", StemKind::kRegular, "마십니다", "마셨습니다", "마실 것입니다", "마시는", "마신",
     "마실"},
    {"보내", StemKind::kRegular, "보냅니다", "보냈습니다", "보낼 것입니다", "보내는", "보낸",
     "보낼"},
    {"쉬", StemKind::kRegular, "쉽니다", "쉬었습니다", "쉴 것입니다", "쉬는", "쉰", "쉴"},
    {"좋아하", StemKind::kRegular, "좋아합니다", "좋아했습니다", "좋아할 것입니다", "좋아하는",
     "좋아한", "좋아할"},
    // ㅡ falls
    {"쓰", StemKind::kRegular, "씁니다", "썼습니다", "쓸 것입니다", "쓰는", "쓴", "쓸"},
    // ㄹ falls
    {"만들", StemKind::kRegular, "만듭니다", "만들었습니다", "만들 것입니다", "만드는", "만든",
     "만들"},
    {"팔", StemKind::kRegular, "팝니다", "팔았습니다", "팔 것입니다", "파는", "판", "팔"},
    {"열", StemKind::kRegular, "엽니다", "열었습니다", "열 것입니다", "여는", "연", "열"},
    // irregular
    {"굽", StemKind::kB, "굽습니다", "구웠습니다", "구울 것입니다", "굽는", "구운", "구울"},
    {"돕", StemKind::kBToO, "돕습니다", "도왔습니다", "도울 것입니다", "돕는", "도운", "도울"},
    {"듣", StemKind::kD, "듣습니다", "들었습니다", "들을 것입니다", "듣는", "들은", "들을"},
    {"걷", StemKind::kD, "걷습니다", "걸었습니다", "걸을 것입니다", "걷는", "걸은", "걸을"},
    {"짓", StemKind::kS, "짓습니다", "지었습니다", "지을 것입니다", "짓는", "지은", "지을"},
    {"고르", StemKind::kReu, "고릅니다", "골랐습니다", "고를 것입니다", "고르는", "고른", "고를"},
    {"부르", StemKind::kReu, "부릅니다", "불렀습니다", "부를 것입니다", "부르는", "부른", "부를"},
};

const std::vector<Row> kAdjectives = {
    {"크", StemKind::kRegular, "큽니다", "컸습니다", "클 것입니다", "큰", "큰", "클"},
    {"예쁘", StemKind::kRegular, "예쁩니다", "예뻤습니다", "예쁠 것입니다", "예쁜", "예쁜", "예쁠"},
    {"배고프", StemKind::kRegular, "배고픕니다", "배고팠습니다", "배고플 것입니다", "배고픈",
     "배고픈", "배고플"},
    {"작", StemKind::kRegular, "작습니다", "작았습니다", "작을 것입니다", "작은", "작은", "작을"},
    {"길", StemKind::kRegular, "깁니다", "길었습니다", "길 것입니다", "긴", "긴", "길"},
    {"무겁", StemKind::kB, "무겁습니다", "무거웠습니다", "무거울 것입니다", "무거운", "무거운",
     "무거울"},
    {"아름답", StemKind::kB, "아름답습니다", "아름다웠습니다", "아름다울 것입니다", "아름다운",
     "아름다운", "아름다울"},
    {"빨갛", StemKind::kH, "빨갛습니다", "빨갰습니다", "빨갈 것입니다", "빨간", "빨간", "빨갈"},
    {"하얗", StemKind::kH, "하얗습니다", "하얬습니다", "하얄 것입니다", "하얀", "하얀", "하얄"},
    {"친절하", StemKind::kRegular, "친절합니다", "친절했습니다", "친절할 것입니다", "친절한",
     "친절한", "친절할"},
    {"맛있", StemKind::kRegular, "맛있습니다", "맛있었습니다", "맛있을 것입니다", "맛있는",
     "맛있는", "맛있을"},
};

void check(const std::vector<Row>& rows, bool adjective) {
  for (const Row& row : rows) {
    const Predicate predicate{row.stem, row.kind, adjective};
    EXPECT_EQ(inflect(predicate, Tense::kPresent, Form::kStatement), row.present);
    EXPECT_EQ(inflect(predicate, Tense::kPast, Form::kStatement), row.past);
    EXPECT_EQ(inflect(predicate, Tense::kFuture, Form::kStatement), row.future);
    EXPECT_EQ(inflect(predicate, Tense::kPresent, Form::kAttribute), row.present_noun);
    EXPECT_EQ(inflect(predicate, Tense::kPast, Form::kAttribute), row.past_noun);
    EXPECT_EQ(inflect(predicate, Tense::kFuture, Form::kAttribute), row.future_noun);
  }
}

TEST(GrammarInflection, Verbs) { check(kVerbs, false); }

TEST(GrammarInflection, Adjectives) { check(kAdjectives, true); }

TEST(GrammarInflection, QuestionsAndConnectives) {
  const Predicate hear{"듣", StemKind::kD, false};
  EXPECT_EQ(inflect(hear, Tense::kPresent, Form::kQuestion), "듣습니까");
  EXPECT_EQ(inflect(hear, Tense::kPast, Form::kQuestion), "들었습니까");
  EXPECT_EQ(inflect(hear, Tense::kFuture, Form::kQuestion), "들을 것입니까");
  EXPECT_EQ(inflect(hear, Tense::kPresent, Form::kAnd), "듣고");
  EXPECT_EQ(inflect(hear, Tense::kPast, Form::kBut), "들었지만");
  EXPECT_EQ(inflect(hear, Tense::kFuture, Form::kBut), "들을 것이지만");
  EXPECT_EQ(inflect(hear, Tense::kPast, Form::kBecause), "들었기 때문에");
  const Predicate make{"만들", StemKind::kRegular, false};
  EXPECT_EQ(inflect(make, Tense::kPresent, Form::kAnd), "만들고");
  EXPECT_EQ(inflect(make, Tense::kPresent, Form::kQuestion), "만듭니까");
}

TEST(GrammarInflection, NegationAbilityAndCopula) {
  const Predicate make{"만들", StemKind::kRegular, false};
  EXPECT_EQ(inflect(negated(make), Tense::kPresent, Form::kStatement), "만들지 않습니다");
  EXPECT_EQ(inflect(negated(make), Tense::kPast, Form::kAttribute), "만들지 않은");
  EXPECT_EQ(inflect(negated(make), Tense::kPresent, Form::kAttribute), "만들지 않는");
  EXPECT_EQ(inflect(ability(make, true), Tense::kPresent, Form::kStatement), "만들 수 있습니다");
  EXPECT_EQ(inflect(ability({"읽"}, false), Tense::kPresent, Form::kAnd), "읽을 수 없고");
  EXPECT_EQ(inflect(copula("의사", true), Tense::kPresent, Form::kStatement), "의사입니다");
  EXPECT_EQ(inflect(copula("의사", true), Tense::kPast, Form::kStatement), "의사였습니다");
  EXPECT_EQ(inflect(copula("학생", true), Tense::kPast, Form::kStatement), "학생이었습니다");
  EXPECT_EQ(inflect(copula("학생", true), Tense::kPresent, Form::kBecause), "학생이기 때문에");
  EXPECT_EQ(inflect(copula("의사", false), Tense::kPast, Form::kStatement), "의사가 아니었습니다");
  EXPECT_EQ(inflect(copula("학생", false), Tense::kPresent, Form::kStatement), "학생이 아닙니다");
}

}  // namespace
}  // namespace headwise::data::grammar
