# cmake -DSOURCE=recipes/paper -DOUTPUT=paper_recipes.cpp -P EmbedRecipes.cmake
# Puts every recipe of the paper into a table of C++ strings, so that the installed program needs no source tree.
file(GLOB RECIPES ${SOURCE}/*.toml)
set(entries "")
foreach(recipe ${RECIPES})
  get_filename_component(name ${recipe} NAME_WE)
  file(READ ${recipe} text)
  string(APPEND entries "      {\"${name}\", R\"recipe(${text})recipe\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"experiment/paper/recipes.h\"\n
namespace covnoise::paper {

const std::vector<EmbeddedRecipe>& embedded_recipes() {
  static const std::vector<EmbeddedRecipe> recipes = {
${entries}  };
  return recipes;
}

}  // namespace covnoise::paper
")
