#include "experiment/paper/paper_fixture.h"

#include <gmock/gmock.h>

namespace covnoise::paper {
namespace {

/// Regimes with different numbers of seeds, against values computed with 15 digits by another program (mpmath's
/// incomplete beta function; Welch, Holm and DerSimonian and Laird by their textbook formulas).
TEST_F(PaperTest, ComparisonsAgreeWithAnotherProgram) {
  auto o = options(false);
  o.train = false;
  o.seeds = {0, 1, 2, 3};
  const std::map<std::string, std::vector<double>> tests = {{"mnist-mlp/lb-diag", {0.9810, 0.9824, 0.9831}},
                                                            {"mnist-mlp/lb", {0.9790, 0.9806, 0.9795}},
                                                            {"mnist-lenet/lb-diag", {0.9902, 0.9895, 0.9911, 0.9905}},
                                                            {"mnist-lenet/lb", {0.9880, 0.9901, 0.9893}},
                                                            {"fashion-lenet/lb-diag", {0.902, 0.910}},
                                                            {"fashion-lenet/lb", {0.905, 0.909, 0.901}}};
  for (const auto& spec : planned_runs("table2", o)) {
    const auto found = tests.find(spec.name.substr(0, spec.name.rfind("-s")));
    if (found == tests.end() || spec.config.seed >= found->second.size()) continue;
    pretend(spec, 50, 0.99, found->second[spec.config.seed]);
  }
  reproduce("table2", o);
  Json compared;
  const auto all = json("table2")["numbers"]["comparisons"];
  for (const auto& one : all) {
    if (one["first"] == "lb-diag" && one["second"] == "lb") compared = one;
  }
  const auto expect = [&](const Json& values, std::initializer_list<std::pair<const char*, double>> expected) {
    for (const auto& [key, value] : expected) EXPECT_NEAR(values.at(key).get<double>(), value, 1e-9) << key;
  };
  expect(compared["rows"][0], {{"points", 0.246666666667},
                               {"low", 0.0248830694746},
                               {"high", 0.468450263859},
                               {"degrees_of_freedom", 3.74484024043},
                               {"p_holm", 0.111081506468},
                               {"paper_p_holm", 0.409739493708}});
  expect(compared["rows"][1], {{"points", 0.119166666667},
                               {"low", -0.0958431131688},
                               {"high", 0.334176446502},
                               {"degrees_of_freedom", 3.17175641621},
                               {"p_holm", 0.361262455987},
                               {"paper_p_holm", 0.409739493708}});
  expect(compared["rows"][2], {{"points", 0.1},
                               {"low", -2.2907989793},
                               {"high", 2.4907989793},
                               {"degrees_of_freedom", 1.68421052632},
                               {"p_holm", 0.851921159622},
                               {"paper_p_holm", 0.235414616505}});
  expect(compared["pooled"], {{"points", 0.174985850509}, {"low", -0.0468225554647}, {"high", 0.396794256483}});
  EXPECT_EQ(compared["pooled"]["rows"], 3);
}

}  // namespace
}  // namespace covnoise::paper
