#include "experiment/paper/items.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/did_you_mean.h"
#include "covnoise/experiment/internal/paper.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise::paper {
namespace {

// Table 2. The paper has no Fisher trace for AlexNet (N/A), and names full Fisher for one row, in the caption. Its
// fully connected network and its AlexNet were probably those of Keskar et al. (docs/models.md).
const std::vector<Row> kTable2 = {
    {"mnist-mlp",
     "MNIST, MLP",
     {{"sb", 98.10}, {"lb", 97.95}, {"lb-trace", 98.08}, {"lb-diag", 98.10}},
     "mnist-f1",
     "MNIST, F1"},
    {"mnist-lenet", "MNIST, LeNet", {{"sb", 99.10}, {"lb", 98.88}, {"lb-trace", 99.02}, {"lb-diag", 99.11}}},
    {"fashion-lenet", "Fashion-MNIST, LeNet", {{"sb", 91.15}, {"lb", 88.89}, {"lb-trace", 90.29}, {"lb-diag", 90.79}}},
    {"cifar10-alexnet",
     "CIFAR-10, AlexNet",
     {{"sb", 87.80}, {"lb", 86.42}, {"lb-diag", 87.61}},
     "cifar10-c1",
     "CIFAR-10, C1"},
    {"cifar100-alexnet",
     "CIFAR-100, AlexNet",
     {{"sb", 59.21}, {"lb", 56.79}, {"lb-diag", 59.10}},
     "cifar100-c1",
     "CIFAR-100, C1"},
    {"cifar10-vgg16", "CIFAR-10, VGG16", {{"sb", 93.25}, {"lb", 91.81}, {"lb-trace", 92.91}, {"lb-diag", 93.19}}},
    {"cifar100-vgg16", "CIFAR-100, VGG16", {{"sb", 72.83}, {"lb", 69.45}, {"lb-trace", 71.35}, {"lb-diag", 72.11}}},
    {"cifar10-resnet44",
     "CIFAR-10, ResNet44",
     {{"sb", 93.42}, {"lb", 91.93}, {"lb-trace", 92.33}, {"lb-diag", 92.88}, {"lb-full", 93.22}}},
    {"cifar100-resnet44x2",
     "CIFAR-100, ResNet44x2",
     {{"sb", 75.55}, {"lb", 73.13}, {"lb-trace", 73.77}, {"lb-diag", 74.26}}},
};

// Table 3, of the appendix. It has neither lb nor the last three rows: their numbers are those of table 2.
const std::vector<Row> kTable3 = {
    {"cifar10-vgg16",
     "CIFAR-10, VGG16",
     {{"sb", 93.25},
      {"lb", 91.81},
      {"batch-change", 93.18},
      {"lb-multiplicative", 90.98},
      {"lb-kfac", 93.06},
      {"lb-trace", 92.91},
      {"lb-diag", 93.19}}},
    {"cifar100-vgg16",
     "CIFAR-100, VGG16",
     {{"sb", 72.83},
      {"lb", 69.45},
      {"batch-change", 72.44},
      {"lb-multiplicative", 68.77},
      {"lb-kfac", 71.86},
      {"lb-trace", 71.35},
      {"lb-diag", 72.11}}},
    {"cifar10-resnet44",
     "CIFAR-10, ResNet44",
     {{"sb", 93.42},
      {"lb", 91.93},
      {"batch-change", 93.02},
      {"lb-multiplicative", 91.28},
      {"lb-kfac", 92.81},
      {"lb-trace", 92.33},
      {"lb-diag", 92.88}}},
    {"cifar100-resnet44x2",
     "CIFAR-100, ResNet44x2",
     {{"sb", 75.55},
      {"lb", 73.13},
      {"batch-change", 75.16},
      {"lb-multiplicative", 71.98},
      {"lb-kfac", 73.84},
      {"lb-trace", 73.77},
      {"lb-diag", 74.26}}},
    {"mnist-mlp",
     "MNIST, MLP",
     {{"sb", 98.10}, {"lb", 97.95}, {"lb-trace", 98.08}, {"lb-diag", 98.10}},
     "mnist-f1",
     "MNIST, F1"},
    {"mnist-lenet", "MNIST, LeNet", {{"sb", 99.10}, {"lb", 98.88}, {"lb-trace", 99.02}, {"lb-diag", 99.11}}},
    {"fashion-lenet", "Fashion-MNIST, LeNet", {{"sb", 91.15}, {"lb", 88.89}, {"lb-trace", 90.29}, {"lb-diag", 90.79}}},
};

const std::vector<Row> kResNet44 = {{"cifar10-resnet44", "CIFAR-10, ResNet44"}};
const std::vector<Row> kFig3 = {{"fig3-cifar10-resnet44", "CIFAR-10, ResNet44"}};
const std::vector<Row> kQuickFig3 = {{"quick-fig3-glyphs-lenet", "glyphs, LeNet"}};
const std::vector<Row> kQuickResNet = {{"quick-textures-resnet8", "textures, ResNet8"}};
const std::vector<Row> kQuickTwo = {{"quick-glyphs-mlp", "glyphs, MLP"},
                                    {"quick-textures-resnet8", "textures, ResNet8"}};
const std::vector<Row> kQuickAll = {{"quick-glyphs-mlp", "glyphs, MLP"},
                                    {"quick-glyphs-lenet", "glyphs, LeNet"},
                                    {"quick-textures-resnet8", "textures, ResNet8"}};

/// Takes about a minute on two cores.
Effort small() {
  Effort effort;
  effort.seeds = {0, 1};
  effort.updates = 200;
  effort.small_batch = 32;
  effort.large_batch = 256;
  effort.samples = 16;
  effort.examples = 128;
  effort.batches = 3;
  effort.tolerance = 1e-2;
  effort.trajectories = 1024;
  return effort;
}

/// An item without runs.
Item described(const char* name, const char* title, const char* claim, Result (*make)(const Context&)) {
  Item item{name, title, claim, make};
  item.quick_effort = small();
  return item;
}

/// An item with the rows `rows` (`quick_rows` if quick), each with these regimes.
Item trained(Item item, std::vector<std::string> regimes, std::vector<Row> rows, std::vector<Row> quick_rows) {
  item.regimes = std::move(regimes);
  item.rows = std::move(rows);
  item.quick_rows = std::move(quick_rows);
  return item;
}

Item of_one_seed(Item item) {
  item.effort.seeds = item.quick_effort.seeds = {0};
  return item;
}

Item with_examples(Item item, std::int64_t examples, std::int64_t quick_examples) {
  item.effort.examples = examples;
  item.quick_effort.examples = quick_examples;
  return item;
}

std::vector<Item> make_items() {
  std::vector<Item> list;
  list.push_back(described("table1", "Table 1: steps to reach an error, convex quadratic",
                           "Steps in proportion to |A|_F^2 for C = sqrt(A), to |diag A|_F^2 for C = sqrt(diag A).",
                           make_table1));
  list.push_back(trained(described("table2", "Table 2: test accuracy by regime",
                                   "lb-diag is close to sb in every row, and above lb and lb-trace.", make_accuracies),
                         {"sb", "lb", "lb-trace", "lb-diag", "lb-diag-match"}, kTable2, kQuickAll));
  list.push_back(trained(described("table3", "Table 3: test accuracy of further regimes",
                                   "Batch change and K-FAC noise are close to diagonal Fisher noise, multiplicative "
                                   "noise stays behind.",
                                   make_accuracies),
                         {"sb", "lb", "batch-change", "lb-multiplicative", "lb-kfac", "lb-trace", "lb-diag"}, kTable3,
                         kQuickTwo));
  list[1].comparisons = {
      {"lb", "sb", true}, {"lb-trace", "lb", true}, {"lb-diag", "lb", true}, {"lb-diag-match", "lb", true},
      {"lb-trace", "sb"}, {"lb-diag", "sb"},        {"lb-diag-match", "sb"}};
  list[2].comparisons = {
      {"batch-change", "lb", true}, {"batch-change", "sb", true},     {"lb-multiplicative", "lb", true},
      {"lb-kfac", "lb", true},      {"lb-multiplicative", "sb"},      {"lb-kfac", "sb"},
      {"batch-change", "lb-diag"},  {"lb-multiplicative", "lb-diag"}, {"lb-kfac", "lb-diag"}};
  list.push_back(trained(
      described("variants", "Variants: noise and batch change on the ground of the large batch",
                "Diagonal Fisher noise brings the large batch close to the small one.", make_variants),
      {"lb", "lb-diag", "lb-trace", "lb-diag-match", "lb-kfac", "lb-full", "batch-change"}, kTable2, kQuickTwo));
  list.back().with_variants = true;
  list.push_back(
      trained(described("headline", "Headline: small batch and best large batch",
                        "lb-diag is close to sb in every row.", make_headline),
              {"sb", "lb", "lb-trace", "lb-diag", "lb-diag-match", "lb-full", "lb-kfac", "lb-multiplicative"}, kTable2,
              kQuickAll));
  list.back().trains = false;
  list.back().with_variants = true;
  for (auto& item : list) item.uses_networks = false;
  const auto along_runs = [](Item item) {
    item.along_runs = true;
    return item;
  };
  list.push_back(
      described("fig1", "Figure 1: one step of a two-dimensional regression",
                "Full Fisher noise almost recovers the noise of SGD, and converges more slowly than diagonal "
                "Fisher noise.",
                make_fig1));
  list.push_back(along_runs(
      of_one_seed(trained(described("fig2", "Figure 2: variance of gradients by regime",
                                    "sb, lb-full and lb-diag have roughly the same variance; that of lb is much "
                                    "lower.",
                                    make_fig2),
                          {"sb"}, kResNet44, kQuickResNet))));
  list.push_back(of_one_seed(trained(described("fig3", "Figure 3: training error per parameter update",
                                               "lb-diag trains nearly as fast as lb, and much faster than lb-full, "
                                               "lb-true and sb, which are alike.",
                                               make_fig3),
                                     {"sb", "lb", "lb-diag", "lb-full", "lb-true"}, kFig3, kQuickFig3)));
  list.push_back(described("fig4", "Figure 4: trajectories on a two-dimensional quadratic",
                           "Diagonal Fisher noise converges faster than full Fisher noise.", make_fig4));
  list.push_back(along_runs(with_examples(
      of_one_seed(
          trained(described("fig5a", "Figure 5a: Frobenius norms of the Fisher matrix along the training",
                            "The norm of the full Fisher matrix is much larger than that of its diagonal.", make_fig5a),
                  {"sb"}, kResNet44, kQuickResNet)),
      512, 128)));
  list.push_back(with_examples(trained(described("fig5b", "Figure 5b: largest eigenvalue of the Hessian at the end",
                                                 "For every model that of lb-diag is below that of lb, in some cases "
                                                 "close to that of sb.",
                                                 make_fig5b),
                                       {"sb", "lb", "lb-diag"}, kTable2, kQuickTwo),
                               2000, 128));
  return list;
}

}  // namespace

double Row::number(const std::string& regime) const {
  for (const auto& number : numbers) {
    if (number.regime == regime) return number.accuracy;
  }
  return NAN;
}

std::vector<std::string> Item::regimes_of(const Row& row) const {
  std::vector<std::string> all = regimes;
  for (const auto& variant : row.variants) all.push_back(variant.name);
  if (make != make_accuracies) return all;  // other items take their rows from a table, not its regimes
  for (const auto& number : row.numbers) {
    if (std::find(all.begin(), all.end(), number.regime) == all.end()) all.push_back(number.regime);
  }
  return all;
}

const std::vector<Item>& items() {
  static const std::vector<Item> list = make_items();
  return list;
}

std::vector<std::string> item_names() {
  std::vector<std::string> names;
  for (const auto& item : items()) names.push_back(item.name);
  return names;
}

std::string describe_items() {
  std::string text;
  for (const auto& item : items()) text += fmt::format("{:<8} {}\n", item.name, item.title);
  return text;
}

Item find_item(const std::string& name, bool quick) {
  for (Item item : items()) {
    if (item.name != name) continue;
    if (quick) {
      item.rows = item.quick_rows;
      item.effort = item.quick_effort;
    }
    return item;
  }
  throw Error(unknown_name("item", name, item_names()));
}

}  // namespace covnoise::paper
