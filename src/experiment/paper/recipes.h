#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace covnoise::paper {

struct EmbeddedRecipe {
  std::string_view name, text;
};

/// Every recipes/paper/<name>.toml, by name. cmake/EmbedRecipes.cmake writes this function.
const std::vector<EmbeddedRecipe>& embedded_recipes();

struct RecipeText {
  std::string name, text;  ///< the name is for errors
};

/// Whether the folder has a recipe of that name.
bool has_recipe(const std::string& name, const std::filesystem::path& folder);

/// The recipe of that name: <folder>/<name>.toml, or the embedded one if no folder is given.
RecipeText find_recipe(const std::string& name, const std::filesystem::path& folder);

}  // namespace covnoise::paper
