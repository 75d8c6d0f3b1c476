#include "covnoise/core/internal/toml_text.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

TEST(TomlText, AcceptsWhatTomlAllows) {
  for (const std::string text :
       {"", "a = 1 # \xc3\xa4\r\n",
        "\xEF\xBB\xBF"
        "a = \"\xc3\xa4 \\\" # '\"\nb = '\xc3\xa4\\'\n",
        "a = \"\"\"\n\xc3\xa4 \\\n  b\"\"\"\"\"\n", "a = '''\n'\xc3\xa4'''' # .\n",
        "train.\"a.b\".c = [0.1, 0.2,\t0.3]\n", "# ................................................\n"}) {
    EXPECT_EQ(toml_problem(text), "") << text;
  }
}

TEST(TomlText, RefusesControlCharacters) {
  EXPECT_EQ(toml_problem("a = 1\n[\x18]"), "2:2: a control character");
  EXPECT_EQ(toml_problem(std::string("a = \"\xc3\xa4\0\"", 9)), "1:7: a control character");
  EXPECT_EQ(toml_problem("a = \"\\\x01\""), "1:7: a control character");
  EXPECT_EQ(toml_problem("# \x7f"), "1:3: a control character");
}

TEST(TomlText, RefusesLettersOutsideOfQuotes) {
  EXPECT_EQ(toml_problem("tra\xc3\xa4n = 1"), "1:4: a character that must be in quotes");
  EXPECT_EQ(toml_problem("a = \"b\"\xc2\xa0"), "1:8: a character that must be in quotes");
  EXPECT_EQ(toml_problem("a = \"\\\xef\xbb\x9f\""), "1:6: a character other than ASCII after a backslash");
  EXPECT_EQ(toml_problem("a = \"\"\"\\\n \xc3\xa4\"\"\""), "1:8: a character other than ASCII after a backslash");
}

TEST(TomlText, RefusesQuotesInsideOfWords) {
  EXPECT_EQ(toml_problem("seed = 293'237\"036854$\xef\xbb\xa9 07\n"), "1:11: a quote inside a word");
  EXPECT_EQ(toml_problem("a = 'b''c'"), "1:8: a quote inside a word");
  EXPECT_EQ(toml_problem("a = 1.'\xef\xbb\xa9'"), "1:9: a character other than ASCII after a dot");
  EXPECT_EQ(toml_problem("a = +b{{{\"\xef\xbb\xbe"), "1:7: a bracket inside a word");
  EXPECT_EQ(toml_problem("a = 1='\xef\xbb\xbe'"), "1:6: an equals sign in a value");
  EXPECT_EQ(toml_problem("a = [1, 2='\xef\xbb\xbe']"), "1:10: an equals sign in a value");
  for (const char* good : {"\xEF\xBB\xBF'a' = {'b' = ['c','d'], e={f=1}}\ng=2",
                           "[a.\"b\"]\n[[c]]\nd = [[1, 2],\n {e = 'f', g = 1}]\nh=1"}) {
    EXPECT_EQ(toml_problem(good), "") << good;
  }
}

TEST(TomlText, RefusesWhatIsTooDeepOrTooLong) {
  std::string key = "a";
  for (int i = 0; i < 33; ++i) key += ".a";
  EXPECT_EQ(toml_problem(key + " = 1"), "1:66: a key of too many parts");
  EXPECT_EQ(toml_problem(std::string((1 << 20) + 1, ' ')), "1:1: more than 1 MiB");
}

}  // namespace
}  // namespace covnoise
