#include "src/io/model_io.h"

#include <ATen/ATen.h>

#include <cstring>
#include <utility>

#include "src/config/error.h"
#include "src/config/load.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/file.h"
#include "src/io/safetensors.h"

namespace headwise::io {
namespace {

constexpr std::pair<at::ScalarType, Dtype> kDtypes[] = {
    {at::kDouble, Dtype::kF64},    {at::kFloat, Dtype::kF32}, {at::kHalf, Dtype::kF16},
    {at::kBFloat16, Dtype::kBf16}, {at::kLong, Dtype::kI64},  {at::kInt, Dtype::kI32},
    {at::kByte, Dtype::kU8},       {at::kBool, Dtype::kBool}};

Dtype dtype_of(const at::Tensor& tensor) {
  for (const auto& [type, dtype] : kDtypes) {
    if (type == tensor.scalar_type()) return dtype;
  }
  TORCH_CHECK(false, "no safetensors dtype for ", tensor.scalar_type());
}

at::ScalarType scalar_type_of(Dtype dtype) {
  for (const auto& [type, candidate] : kDtypes) {
    if (candidate == dtype) return type;
  }
  TORCH_CHECK(false, "no torch dtype for a safetensors dtype");
}

std::string shape_text(const at::Tensor& tensor) { return text_of(tensor.sizes()); }

/// The first few of many complaints, joined.
class Complaints {
 public:
  void add(const std::string& complaint) {
    if (++count_ <= kShown) text_ += "\n  " + complaint;
  }
  void raise(const std::string& place) const {
    if (count_ == 0) return;
    std::string message = place + " does not fit the configured model:" + text_;
    if (count_ > kShown) message += text_of("\n  … and ", count_ - kShown, " more");
    throw UserError(message);
  }

 private:
  static constexpr int kShown = 4;
  int count_ = 0;
  std::string text_;
};

}  // namespace

void save_tensors(const std::filesystem::path& path, const Tensors& tensors) {
  Tensors contiguous;  // keeps copies alive while views point into them
  std::map<std::string, TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = tensor.detach().cpu().contiguous();
    contiguous[name] = dense;
    views[name] = {dtype_of(dense),
                   dense.sizes().vec(),
                   {static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()}};
  }
  write_safetensors(path, views, {{"format", "pt"}});
}

Tensors load_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  Tensors tensors;
  for (const auto& [name, view] : file.tensors()) {
    at::Tensor tensor = at::empty(view.shape, at::TensorOptions(scalar_type_of(view.dtype)));
    if (!view.data.empty()) std::memcpy(tensor.data_ptr(), view.data.data(), view.data.size());
    tensors[name] = tensor;
  }
  return tensors;
}

Tensors parameters_of(const torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  return tensors;
}

void copy_into(const Tensors& targets, const Tensors& values, const std::string& place) {
  Complaints complaints;
  for (const auto& [name, value] : values) {
    if (targets.count(name) == 0) complaints.add("surplus tensor " + name);
  }
  for (const auto& [name, target] : targets) {
    const auto found = values.find(name);
    if (found == values.end()) {
      complaints.add("missing tensor " + name);
    } else if (found->second.sizes() != target.sizes()) {
      complaints.add(name + ": found " + shape_text(found->second) + ", needed " +
                     shape_text(target));
    } else if (found->second.scalar_type() != target.scalar_type()) {
      complaints.add(text_of(name, ": found ", found->second.scalar_type(), ", needed ",
                             target.scalar_type()));
    }
  }
  complaints.raise(place);
  at::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) at::Tensor(target).copy_(values.at(name));
}

void save_vocabularies(const std::filesystem::path& folder,
                       const data::Vocabularies& vocabularies) {
  write_file(folder / kSourceSubwordFile, vocabularies.source.bytes());
  if (!vocabularies.joint) write_file(folder / kTargetSubwordFile, vocabularies.target.bytes());
}

data::Vocabularies load_vocabularies(const std::filesystem::path& folder) {
  const auto load = [&](const char* name) {
    return data::Subword::from_bytes(read_file(folder / name), (folder / name).string());
  };
  data::Subword source = load(kSourceSubwordFile);
  if (!std::filesystem::exists(folder / kTargetSubwordFile)) return {source, source, true};
  return {source, load(kTargetSubwordFile), false};
}

void require_same_subwords(const std::filesystem::path& a, const std::filesystem::path& b,
                           const std::string& verb) {
  for (const char* name : {kSourceSubwordFile, kTargetSubwordFile}) {
    const bool in_a = std::filesystem::exists(a / name), in_b = std::filesystem::exists(b / name);
    if (in_a != in_b || (in_a && sha256_of_file(a / name) != sha256_of_file(b / name))) {
      throw UserError("cannot " + verb + " " + a.string() + " and " + b.string() +
                      ": their subword models (" + name + ") differ");
    }
  }
}

LoadedModel load_model(const std::filesystem::path& path) {
  const std::filesystem::path folder = resolve_checkpoint(path);
  verify(folder);
  const config::Config config = config::load(folder / kConfigFile, {}).config;
  data::Vocabularies vocabularies = load_vocabularies(folder);
  model::Transformer model(config.model, vocabularies.source.size(), vocabularies.target.size());
  const std::filesystem::path weights = folder / kModelFile;
  copy_into(parameters_of(*model), load_tensors(weights), weights.string());
  model->eval();
  return {config, std::move(vocabularies), std::move(model), folder};
}

}  // namespace headwise::io
