#include "experiment/paper/recipes.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/experiment/internal/paper.h"

#include <fmt/format.h>

namespace covnoise::paper {

bool has_recipe(const std::string& name, const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / (name + ".toml"));
}

RecipeText find_recipe(const std::string& name, const std::filesystem::path& folder) {
  if (!folder.empty()) {
    const auto path = folder / (name + ".toml");
    require(has_recipe(name, folder),
            fmt::format("there is no {}; covnoise paper recipes DIR writes all recipes for editing", path.string()));
    return {path.string(), read_file(path)};
  }
  for (const auto& recipe : embedded_recipes()) {
    if (recipe.name == name) return {fmt::format("recipes/paper/{}.toml", name), std::string(recipe.text)};
  }
  throw Error(fmt::format("this program has no recipe {}", name));
}

std::vector<std::filesystem::path> write_recipes(const std::filesystem::path& folder) {
  create_folders(folder);
  std::vector<std::filesystem::path> paths;
  for (const auto& recipe : embedded_recipes()) {
    paths.push_back(folder / (std::string(recipe.name) + ".toml"));
    require(!std::filesystem::exists(paths.back()), fmt::format("{} already exists", paths.back().string()));
    write_file_synced(paths.back(), recipe.text);
  }
  return paths;
}

}  // namespace covnoise::paper
