#include "src/io/average.h"

#include <ATen/ATen.h>

#include <string>

#include "src/config/error.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/model_io.h"

namespace headwise::io {

void write_average(const std::vector<std::filesystem::path>& checkpoints,
                   const std::filesystem::path& output) {
  if (checkpoints.empty()) throw UserError("nothing to average: name at least one checkpoint");
  Tensors sums;
  for (const std::filesystem::path& checkpoint : checkpoints) {
    verify(checkpoint);
    require_same_subwords(checkpoints.front(), checkpoint, "average");
    Tensors values = load_tensors(checkpoint / kModelFile);
    for (auto& [name, value] : values) value = value.to(at::kDouble);
    if (sums.empty()) {
      sums = values;
      continue;
    }
    Tensors total = values;
    for (auto& [name, value] : total) value = at::zeros_like(value);
    copy_into(total, sums, checkpoint.string());  // refuses other names and shapes
    for (auto& [name, value] : values) value.add_(total.at(name));
    sums = values;
  }
  for (auto& [name, sum] : sums) sum = sum.div(double(checkpoints.size())).to(at::kFloat);

  const std::filesystem::path& last = checkpoints.back();
  const std::filesystem::path target = std::filesystem::absolute(output).lexically_normal();
  publish(target.parent_path(), target.filename().string(),
          [&](const std::filesystem::path& folder) {
            save_tensors(folder / kModelFile, sums);
            for (const char* name : {kConfigFile, kSourceSubwordFile, kTargetSubwordFile}) {
              if (std::filesystem::exists(last / name)) {
                std::filesystem::copy_file(last / name, folder / name);
              }
            }
          });
}

}  // namespace headwise::io
