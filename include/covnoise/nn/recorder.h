#pragma once
#include "covnoise/nn/accounting.h"
#include "covnoise/nn/flat_parameters.h"

#include <cstdint>
#include <string>
#include <vector>

namespace covnoise {

/// Names of the trainable parameters that belong to no accounted layer, or to layers that share only part of theirs.
std::vector<std::string> unaccounted_parameters(torch::nn::Module& module);

/// Requests statistics from the accounted layers of a network and holds what their backward passes add up.
class Recorder {
 public:
  /// An accounted layer of the network, or several that share their parameters.
  struct Layer {
    std::size_t weight;                      ///< index into FlatParameters::entries()
    std::int64_t bias = -1;                  ///< the same, or -1
    bool kronecker;                          ///< whether the layer has Kronecker factors
    c10::intrusive_ptr<LayerRecord> record;  ///< what it adds to
  };

  /// Gives every accounted layer of `module` a record; layers with the same parameters share it, as calls of one layer.
  Recorder(torch::nn::Module& module, const FlatParameters& parameters);
  /// Takes the records away again.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Starts new sums. Layers that give Kronecker factors where those are asked for give no squares.
  void start(const LayerRequest& request);
  /// Whether the next backward passes record. A forward pass whose graph shall record must run between start and stop.
  void set_active(bool active);
  void stop();
  /// Before each forward pass: its number of examples, and the place in the large batch of the first.
  void begin_pass(std::int64_t first, std::int64_t examples);
  /// Before the backward pass of `losses`: refuses by name a parameter of an accounted layer that is also used outside
  /// its layer, where its contributions would be missing. Calls that do not lead to the losses are not waited for.
  void check_uses(const at::Tensor& losses) const;

  const std::vector<Layer>& layers() const { return layers_; }
  const at::Tensor& squares() const { return squares_; }  ///< layout of the parameters; undefined before the first use
  const at::Tensor& draw() const { return draw_; }        ///< the same, of the layers with Kronecker factors; else zero
  /// unaccounted_parameters of the network.
  const std::vector<std::string>& unaccounted() const { return unaccounted_; }

 private:
  LayerRequest request_of(std::size_t layer) const;

  torch::nn::Module& module_;
  const FlatParameters& parameters_;
  std::vector<at::Tensor> trainable_;
  std::vector<Layer> layers_;
  std::vector<std::string> unaccounted_;
  LayerRequest request_;
  at::Tensor squares_, draw_;
};

}  // namespace covnoise
