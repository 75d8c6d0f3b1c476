#include "covnoise/nn/model_zoo.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/accounting.h"
#include "nn/models/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <functional>
#include <regex>

namespace covnoise {
namespace {

/// A family of networks: its names match `pattern`, whose groups are the numbers in the name.
struct Family {
  const char* pattern;
  const char* summary;
  bool batch_statistics;
  double default_lr;
  std::int64_t micro_batch;  // large enough for full speed, small enough for memory
  std::shared_ptr<Model> (*make)(const std::smatch& name, const ModelOptions& options);
  bool (*exists)(const std::smatch& name);
};

std::int64_t number(const std::smatch& name, std::size_t group) {
  return name[group].matched ? std::stoll(name[group].str()) : 1;
}

bool always(const std::smatch&) { return true; }

// Up to the 1202 layers of the paper.
bool is_resnet(const std::smatch& name) {
  const std::int64_t layers = number(name, 1), width = number(name, 2);
  return layers >= 8 && layers <= 1202 && (layers - 2) % 6 == 0 && width >= 1 && width <= 32;
}

const Family kFamilies[] = {
    {"mlp", "two hidden layers of 512", false, 0.05, 4096,
     [](const std::smatch&, const ModelOptions& options) { return models::make_mlp(options); }, always},
    {"lenet", "convolutions 20 and 50 of 5x5, 500 hidden", false, 0.05, 512,
     [](const std::smatch&, const ModelOptions& options) { return models::make_lenet(options); }, always},
    {"alexnet", "five 3x3 convolutions, 256 hidden", false, 0.05, 512,
     [](const std::smatch&, const ModelOptions& options) { return models::make_alexnet(options); }, always},
    {"f1", "Keskar et al.: five hidden layers of 512", true, 0.1, 4096,
     [](const std::smatch&, const ModelOptions& options) { return models::make_f1(options); }, always},
    {"c1", "Keskar et al.: two 5x5 convolutions, 384 and 192 hidden, dropout", true, 0.1, 512,
     [](const std::smatch&, const ModelOptions& options) { return models::make_c1(options); }, always},
    {"vgg(11|13|16|19)", "VGG, one linear layer", true, 0.05, 512,
     [](const std::smatch& name, const ModelOptions& options) { return models::make_vgg(number(name, 1), options); },
     always},
    {"resnet([1-9][0-9]{0,3})(?:x([1-9][0-9]?))?", "CIFAR ResNet, zero-padded shortcuts", true, 0.1, 512,
     [](const std::smatch& name, const ModelOptions& options) {
       return models::make_resnet(number(name, 1), number(name, 2), options);
     },
     is_resnet},
};

/// The family of a name, and the numbers in it.
const Family& find(const std::string& name, std::smatch& match) {
  for (const auto& family : kFamilies)
    if (std::regex_match(name, match, std::regex(family.pattern)) && family.exists(match)) return family;
  throw Error(fmt::format("unknown model '{}'; known: {}; any resnet<6n+2>, with x<width> for wider ones", name,
                          fmt::join(model_names(), ", ")));
}

void check(const std::string& name, const ModelOptions& options) {
  const auto& input = options.input;
  if (input.channels < 1 || input.height < 1 || input.width < 1 || options.classes < 1)
    throw Error(fmt::format("model '{}': images of {}x{}x{} and {} classes: all must be positive", name, input.channels,
                            input.height, input.width, options.classes));
}

/// During its lifetime every layer has a record of its own; afterwards the previous records are restored.
class TemporaryRecords {
 public:
  TemporaryRecords(torch::nn::Module& module, const LayerRequest& request) {
    module.apply([&](torch::nn::Module& part) {
      auto* layer = dynamic_cast<AccountedLayer*>(&part);
      if (layer == nullptr || layer->weight_parameter().dim() < 2) return;
      layers_.emplace_back(layer, layer->record());
      layer->set_record(c10::make_intrusive<LayerRecord>());
      layer->record()->request = request;
    });
  }
  ~TemporaryRecords() {
    for (auto& [layer, record] : layers_) layer->set_record(record);
  }
  TemporaryRecords(const TemporaryRecords&) = delete;
  TemporaryRecords& operator=(const TemporaryRecords&) = delete;
  const auto& layers() const { return layers_; }

 private:
  std::vector<std::pair<AccountedLayer*, c10::intrusive_ptr<LayerRecord>>> layers_;
};

}  // namespace

std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options) {
  std::smatch match;
  const auto& family = find(name, match);
  check(name, options);
  return family.make(match, options);
}

ModelInfo model_info(const std::string& name) {
  std::smatch match;
  const auto& family = find(name, match);
  // Linear scaling if batch normalisation keeps it stable; otherwise a cautious start, not a tuned value.
  return {name,
          family.summary,
          family.batch_statistics,
          family.default_lr,
          family.batch_statistics ? 1.0 : 0.25,
          family.micro_batch};
}

std::vector<std::string> model_names() {
  return {"mlp",   "lenet",    "alexnet",  "f1",       "c1",       "vgg11",     "vgg13",     "vgg16",
          "vgg19", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "resnet44x2"};
}

std::int64_t parameter_count(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// The forward pass of an accounted layer notes its output positions; each uses every weight once.
std::int64_t multiply_adds(Model& model, const InputShape& input) {
  const bool training = model.is_training();
  const torch::AutoGradMode with_gradient(true);
  LayerRequest request;
  request.kronecker = true;
  const TemporaryRecords records(model, request);
  model.eval();
  model.forward(torch::zeros({1, input.channels, input.height, input.width}, model.parameters()[0].scalar_type()));
  model.train(training);
  std::int64_t count = 0;
  for (const auto& [layer, previous] : records.layers())
    count += layer->weight_parameter().numel() * layer->record()->positions;
  return count;
}

}  // namespace covnoise
